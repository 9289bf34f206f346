"""What a model of transformers asks of its attention, found out when it is loaded.

Owns the probe: some tokens through the model, over an attention in which each attends to itself
alone, so that what the architecture needs is known before anybody's run does, and what the engine
cannot give is refused by name. Knows of no family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from runtime.attention.base import AttentionKind

PROBE = "sgdsl_probe"

NUM_PROBED = 4
"""Tokens that a model is tried with when it is loaded."""

WITHOUT_MEANING = {
    *("attention_probe", "dropout", "scaling", "sliding_window", "softcap", "s_aux", "is_causal"),
    *("position_ids", "use_cache", "output_attentions", "output_hidden_states", "return_dict"),
    *("output_router_logits", "cache_position", "deterministic", "max_length_q", "max_length_k"),
}
"""What the probe reads itself, and what changes nothing without training, a cache or padding."""

NO_WINDOW, LATER, NOT_OURS = 0.0, -1.0, -2.0
"""What a mask is filled with, besides the length of its window."""

LONG = 1 << 32
"""No context is that long."""

FAULTS = {
    LATER: "lets its tokens attend to later ones",
    NOT_OURS: "hides other tokens than later ones and those before a window",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """By one layer. The sizes are those of a key and of a value."""

    kind: AttentionKind
    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int


class Probe:
    """What the layers have asked for so far, by their number."""

    def __init__(self) -> None:
        self.layers: dict[int, Asked] = {}
        self.faults: list[str] = []

    def note(self, module: nn.Module, asked: Asked, faults: list[str]) -> None:
        layer: Any = getattr(module, "layer_idx", None)
        if layer is None:
            faults = [*faults, "has attention without a layer's number"]
        elif layer in self.layers:
            faults = [*faults, "has several attentions in one layer"]
        self.faults += faults
        self.layers[layer] = asked


def probe_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attention_probe: Probe,
    scaling: float | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature; query: [1, num_heads, num_tokens, head_dim]."""
    _, num_heads, num_tokens, key_dim = query.shape
    if key.shape[2] != num_tokens:
        attention_probe.faults.append("attends to something else than its tokens")
        return query.transpose(1, 2), None
    window, faults = window_of(attention_mask)
    unknown = sorted(
        name
        for name, given in others.items()
        if name not in WITHOUT_MEANING and given is not None and given is not False
    )
    if unknown:
        faults.append(f"asks its attention for {', '.join(unknown)}")
    kind = AttentionKind(key_dim**-0.5 if scaling is None else float(scaling), window, softcap)
    asked = Asked(kind, num_heads, key.shape[1], key_dim, value.shape[-1])
    attention_probe.note(module, asked, faults)
    return alone(query[0].transpose(0, 1), value[0].transpose(0, 1))[None], None


def probe_mask(
    *, q_length: int, kv_length: int, mask_function: MaskFunction, config: Any, **_others: Any
) -> Tensor:
    """transformers' signature of what makes a mask. Ours is filled with the window that it leaves,
    which its layers then tell from what they are given.
    """
    window = _window_within(mask_function, config.get_text_config().max_position_embeddings)
    return torch.full((1, 1, q_length, kv_length), _coded(window), dtype=torch.float64)


MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Of a place in the batch, a head, a query's place and a key's: whether they meet."""

AttentionInterface.register(PROBE, probe_attention)
AttentionMaskInterface.register(PROBE, probe_mask)


def _window_within(mask_function: MaskFunction, context_len: int) -> float:
    places, zero = torch.arange(context_len), torch.tensor(0)
    try:
        if bool(mask_function(zero, zero, places[0], places[1:]).any()):
            return LATER
        seen = mask_function(zero, zero, places[-1], places)
        window = int(seen.sum())
        for query in {0, 1, window - 1, window, window + 1, context_len // 2, context_len - 1}:
            at = torch.tensor(min(max(query, 0), context_len - 1))
            expected = (places <= at) & (places > at - window)
            if not torch.equal(mask_function(zero, zero, at, places).expand_as(places), expected):
                return NOT_OURS
    except LookupError:  # it knows only the tokens that are there
        return NOT_OURS
    return NO_WINDOW if window == context_len else float(window)


def window_of(mask: Tensor | None) -> tuple[int | None, list[str]]:
    """The window, and what is wrong with the mask."""
    if mask is None:
        return None, [FAULTS[LATER]]
    values = torch.unique(mask).tolist()
    window = (values[0] - 3) / 8
    if len(values) == 1 and window in FAULTS:
        return None, [FAULTS[window]]
    if len(values) != 1 or not (window.is_integer() and 0 <= window < LONG):
        return None, ["adds biases of its own to its scores"]
    return int(window) or None, []


def _coded(window: float) -> float:
    """A number that is no window's any more when a little is added to it."""
    return 8 * window + 3


class AlonePlan:
    """An `AttentionPlan` in which every token attends to itself alone."""

    def run(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """See `AttentionPlan`. All else makes no difference here."""
        del layer, keys, kind, sinks
        return alone(queries, values)


def alone(queries: Tensor, values: Tensor) -> Tensor:
    """[num_tokens, num_heads, dim of a value] where each token attends to itself."""
    return values.repeat_interleave(queries.shape[1] // values.shape[1], dim=1)
