"""What a step costs: the work that is in a batch, and machines as they are told by their numbers.

Owns the counting of a batch's work, and the roofline model of a GPU (Williams et al., 2009): each
part of a step takes as long as the slower of its arithmetic and its memory traffic. It must not
know who is in the batch, nor why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from runtime.batch import Batch


class Work(NamedTuple):
    """What a step computes. `pairs`: of a query and a key that rows of several tokens attend with;
    `own_slots`: that rows of one token read for themselves; `shared_slots`: that are read once for
    several of these; `num_decodes`: rows of one token.
    """

    num_tokens: int = 0
    num_decodes: int = 0
    own_slots: int = 0
    shared_slots: int = 0
    pairs: int = 0


def work_of(batch: Batch) -> Work:
    """In units of the batch's tokens."""
    assert not batch.trees, "what is simulated draws tokens, and scores no options"
    lengths = np.diff(batch.qo_indptr).astype(np.int64)
    reach = batch.kv_lens.astype(np.int64)
    wide = lengths > 1
    pairs = lengths[wide] * reach[wide] - lengths[wide] * (lengths[wide] - 1) // 2
    own, shared = _slots_of(batch, np.flatnonzero(~wide))
    return Work(
        num_tokens=batch.num_tokens,
        num_decodes=int((~wide).sum()),
        own_slots=own,
        shared_slots=shared,
        pairs=int(pairs.sum()),
    )


def _slots_of(batch: Batch, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    """Slots that one of these rows reads, and those that several do, each counted once."""
    if not len(rows):
        return 0, 0
    pages = np.concatenate(
        [batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]] for row in rows]
    )
    readers = np.bincount(pages)
    own = int((readers == 1).sum()) * batch.page_size
    # A row's last page is its own, and in part empty.
    empty = batch.page_size - batch.last_page_len[rows].astype(np.int64)
    return max(0, own - int(empty.sum())), int((readers > 1).sum()) * batch.page_size


class Machine(Protocol):
    """Something that computes steps; times in seconds."""

    def layers_s(self, work: Work) -> float:
        """All of a step but its LM head."""

    def head_s(self, num_rows: int, num_columns: int = 0) -> float:
        """Logits of all tokens for `num_rows` rows, and of `num_columns` tokens for the others."""

    @property
    def pool_tokens(self) -> int:
        """Tokens that there is memory for beside the weights."""


@dataclass(frozen=True, slots=True)
class Network:
    """A decoder of the Llama kind, in numbers; a weight and a KV number take two bytes each."""

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_size: int
    vocab_size: int

    @property
    def num_linear(self) -> int:
        """Weights of the layers."""
        heads = self.num_heads + 2 * self.num_kv_heads
        attention = self.hidden_size * self.head_dim * (heads + self.num_heads)
        return self.num_layers * (attention + 3 * self.hidden_size * self.mlp_size)

    @property
    def num_head(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def kv_bytes(self) -> int:
        """Of one token."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.head_dim

    @property
    def weight_bytes(self) -> int:
        return 2 * (self.num_linear + 2 * self.num_head)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU: peak dense bfloat16 arithmetic, peak memory traffic, memory. `arithmetic` and
    `traffic`: what large kernels reach of the peaks. `layer_s`: what a layer takes at least, its
    dozen kernels being replayed from a CUDA graph; `step_s`: what a step takes beside its layers.
    """

    name: str
    flops: float
    bytes_per_s: float
    memory: float
    arithmetic: float = 0.6
    traffic: float = 0.8
    layer_s: float = 25e-6
    step_s: float = 300e-6


ACCELERATORS = {
    each.name: each
    for each in (
        # NVIDIA's data sheets: dense bfloat16, HBM, memory
        Accelerator("h200", flops=989e12, bytes_per_s=4.8e12, memory=141e9),
        Accelerator("a100", flops=312e12, bytes_per_s=2.039e12, memory=80e9),
    )
}

NETWORKS = {
    each.name: each
    for each in (
        Network("llama-8b", 32, 4096, 32, 8, 128, 14336, 128256),
        Network("qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936),
        Network("smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152),
    )
}

KEPT_FREE = 0.1
"""Of the memory: for activations and what else there is."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """A network on an accelerator: what it takes follows from their numbers alone."""

    network: Network
    accelerator: Accelerator

    def layers_s(self, work: Work) -> float:
        network, accelerator = self.network, self.accelerator
        slots = work.own_slots + work.shared_slots
        read = slots * network.kv_bytes  # of a prefill much less than its arithmetic takes
        pairs = work.pairs + work.own_slots + work.shared_slots * max(1, work.num_decodes)
        attention = 4 * pairs * network.num_layers * network.num_heads * network.head_dim
        linear = self._slower(2 * network.num_linear * work.num_tokens, 2 * network.num_linear)
        layers = linear + self._slower(attention, read)
        return accelerator.step_s + max(layers, accelerator.layer_s * network.num_layers)

    def head_s(self, num_rows: int, num_columns: int = 0) -> float:
        assert not num_columns, "no mask is simulated"
        num_weights = self.network.num_head
        return self._slower(2 * num_weights * num_rows, 2 * num_weights) if num_rows else 0.0

    @property
    def pool_tokens(self) -> int:
        left = self.accelerator.memory * (1 - KEPT_FREE) - self.network.weight_bytes
        return max(0, int(left)) // self.network.kv_bytes

    def _slower(self, flops: float, num_bytes: float) -> float:
        accelerator = self.accelerator
        return max(
            flops / (accelerator.flops * accelerator.arithmetic),
            num_bytes / (accelerator.bytes_per_s * accelerator.traffic),
        )
