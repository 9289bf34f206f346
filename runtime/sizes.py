"""How much of a device's memory becomes KV: rules, of numbers alone.

Owns the shares. It asks no device: whoever has one gives its numbers, so that the rules for any are
tested on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30

MIN_CPU_BYTES, MAX_CPU_BYTES = GIB // 4, 4 * GIB
"""The latter hold about 90,000 tokens of the default model, more than its rows ever need."""

CPU_SHARE = 4
"""One part in so many of what is free: the rest is for weights, activations and the user."""

MIN_GPU_RESERVE, GPU_RESERVE_SHARE = GIB, 16
"""Of a GPU's memory, whoever has it now: for what libraries allocate (workspaces, recorded graphs,
other streams' buffers) and what cannot be used because it is in pieces.
"""

LIVE_ACTIVATIONS = 3
"""Of a layer's widest tensors, how many are alive at once: what goes in, what comes out, a sum."""

LOGITS_COPIES = 3
"""Of a row's logits in float32: the masked ones, their softmax, the sorted ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """Of the largest step. `widest`: columns of a layer's widest tensor, the intermediate ones of
    an MLP or those of query, key and value together.
    """

    token_budget: int
    max_running: int
    widest: int
    vocab_size: int
    activation_bytes: int = 2

    @property
    def num_bytes(self) -> int:
        """What such a step takes beside weights and KV, at most."""
        activations = self.token_budget * self.widest * self.activation_bytes * LIVE_ACTIVATIONS
        return activations + self.max_running * self.vocab_size * 4 * LOGITS_COPIES


def cpu_kv_bytes(free_bytes: int) -> int:
    """Of a machine's memory before the weights are loaded."""
    return max(MIN_CPU_BYTES, min(MAX_CPU_BYTES, free_bytes // CPU_SHARE))


def gpu_kv_bytes(free_bytes: int, total_bytes: int, step: StepShape) -> int:
    """Of a GPU's memory once the weights are there: all that is free but what the largest step and
    the reserve take. None is left of a GPU that is too small: 0.
    """
    assert 0 <= free_bytes <= total_bytes, "what is free is a part of it"
    reserve = max(MIN_GPU_RESERVE, total_bytes // GPU_RESERVE_SHARE)
    return max(0, free_bytes - reserve - step.num_bytes)
