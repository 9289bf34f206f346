"""The general path: transformers' own modelling code over our attention.

Owns running a causal language model's decoder on a packed batch, and its head on some of the rows.
The attention is registered in transformers' `AttentionInterface`; a step's plan travels as a
keyword argument through the model's layers, so nothing is ambient. What a family does to its hidden
states before the output layer, and to its logits behind it, its own code does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from runtime.attention.base import AttentionKind, AttentionPlan
from runtime.errors import UnsupportedModelError
from runtime.model.base import ModelShape, context_len_of, widest_of
from runtime.model.experts import fill_experts
from runtime.model.probe import NUM_PROBED, PROBE, AlonePlan, Probe
from runtime.model.shard import Ranks, shard

ATTENTION = "sgdsl_paged"

CLOSE, CLOSE_IN_16_BITS = 1e-4, 0.05
"""What probed logits may differ by, and ten times as much of themselves."""


@dataclass(frozen=True, slots=True)
class Step:
    """kinds: of the layers. head_dim: of the KV pool; a layer's own may be smaller."""

    plan: AttentionPlan
    kinds: list[AttentionKind]
    head_dim: int

    def attend(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, sinks: Tensor | None
    ) -> Tensor:
        """See `AttentionPlan.run`. Zeros that are added to a head change no product."""
        value_dim = values.shape[-1]
        padded = [
            functional.pad(each, (0, self.head_dim - each.shape[-1]))
            for each in (queries, keys, values)
        ]
        out = self.plan.run(layer, *padded, kind=self.kinds[layer], sinks=sinks)
        return out[..., :value_dim]


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attention_step: Step,
    s_aux: Tensor | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature; query: [1, num_heads, num_tokens, head_dim]. What kind of
    attention it is was found out when the model was loaded, its mask included.
    """
    del attention_mask
    layer: int = module.layer_idx  # type: ignore[assignment]
    queries, keys, values = (each[0].transpose(0, 1) for each in (query, key, value))
    return attention_step.attend(layer, queries, keys, values, sinks=s_aux)[None], None


AttentionInterface.register(ATTENTION, paged_attention)


class _Finished:
    """Hidden states, as the models' heads take them from their decoders' output. Nothing else is
    there.
    """

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, _name: str) -> None:
        return None


class _Decoder(nn.Module):
    """Stands where a model has its decoder. Hidden states that are given pass as they are."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, input_ids: Tensor | None = None, **others: Any) -> Any:
        if input_ids is None:
            return _Finished(others["inputs_embeds"])
        return self.decoder(input_ids=input_ids, **others)


class _Head(nn.Module):
    """Stands where a model has its output layer. tokens: int64 [num_tokens] that logits are
    computed for; None: all.
    """

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head: Any = head
        self.tokens: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        weight: Tensor = self.head.weight
        return weight

    def forward(self, hidden: Tensor) -> Tensor:
        if self.tokens is None:
            logits: Tensor = self.head(hidden)
            return logits
        bias: Tensor | None = self.head.bias
        chosen = None if bias is None else bias[self.tokens]
        return functional.linear(hidden, self.head.weight[self.tokens], chosen)


class GeneralModel:
    """A causal language model of transformers.

    It is probed when it is made. Raises UnsupportedModelError when it does not run over the
    engine's attention.
    """

    shape: ModelShape

    def __init__(self, model: Any) -> None:
        self._model = model
        self._decoder: nn.Module = model.get_decoder()
        self._head = _Head(model.get_output_embeddings())
        if self._decoder is model:
            raise self._refusal("keeps its layers where no other decoder does")
        _replace(model, self._decoder, _Decoder(self._decoder))
        _replace(model, self._head.head, self._head)
        self._probe()

    def split(self, ranks: Ranks) -> None:
        """Keep this process' part only."""
        shard(self._decoder, self._model.config.get_text_config(), ranks)
        shape = self.shape
        self.shape = replace(
            shape,
            num_heads=shape.num_heads // ranks.num_ranks,
            num_kv_heads=shape.num_kv_heads // ranks.num_ranks,
        )

    def fill_experts(self, multiple: int) -> None:
        """Have each expert, if there are any, compute whole multiples of rows."""
        fill_experts(self._decoder, multiple)

    def to(self, device: torch.device) -> None:
        self._model.to(device)

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        plan: AttentionPlan,
        needed: Tensor | None = None,
    ) -> Tensor:
        """See `Model`."""
        step = Step(plan, self._kinds, self.shape.head_dim)
        out = self._decoder(**_inputs(token_ids, positions), attention_step=step)
        hidden: Tensor = out.last_hidden_state[0]
        return hidden if needed is None else hidden[needed]

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """hidden: [num_rows, hidden_size]; tokens: int64 [num_tokens], None for all of them.
        Returns float32 [num_rows, num_tokens].
        """
        few = tokens is not None and type(self._head.head) is nn.Linear
        self._head.tokens = tokens if few else None
        logits: Tensor = self._model(inputs_embeds=hidden[None], use_cache=False).logits[0].float()
        return logits if few or tokens is None else logits[:, tokens]

    @torch.inference_mode()
    def _probe(self) -> None:
        """Take some tokens through every layer: in order by the whole model, then in reverse by
        decoder and head. What comes out is the same if tokens meet nowhere but in the attention,
        and are where their positions say.
        """
        positions = torch.arange(NUM_PROBED)
        tokens = positions * len(self._head.weight) // NUM_PROBED  # one alone may be the padding's
        try:
            whole = self._ask(tokens, positions)
            hidden = self.hidden(tokens.flip(0), positions.flip(0), AlonePlan()).flip(0)
            own, few = self.logits(hidden), self.logits(hidden, tokens)
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as cause:
            if isinstance(cause, UnsupportedModelError):
                raise
            reason = str(cause).partition("\n")[0]
            raise self._refusal(
                f"does not run over the engine's attention ({type(cause).__name__}: {reason})"
            ) from cause
        close = CLOSE if whole.dtype == torch.float32 else CLOSE_IN_16_BITS
        if not torch.allclose(own, whole.float(), rtol=10 * close, atol=close):
            raise self._refusal("lets tokens meet outside of its attention, or ignores positions")
        if not torch.allclose(few, own[:, tokens], rtol=10 * close, atol=close):
            raise self._refusal("does more to its logits than to scale and to cap them")

    def _ask(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The logits of the whole model, whose layers say on the way what they need."""
        probe = Probe()
        self._model.set_attn_implementation(PROBE)
        whole: Tensor = self._model(**_inputs(tokens, positions), attention_probe=probe).logits[0]
        self._model.set_attn_implementation(ATTENTION)
        layers = [probe.layers[index] for index in sorted(probe.layers)]
        if probe.faults:
            raise self._refusal(probe.faults[0])
        if not layers or list(probe.layers) != list(range(len(layers))):
            raise self._refusal("has layers that take no attention from AttentionInterface")
        if len({(layer.num_heads, layer.num_kv_heads) for layer in layers}) > 1:
            raise self._refusal("has other numbers of heads in some layers")
        config = self._model.config.get_text_config()
        self._kinds = [layer.kind for layer in layers]
        self.attention_kinds: tuple[AttentionKind, ...] = tuple(dict.fromkeys(self._kinds))
        num_heads, num_kv_heads = layers[0].num_heads, layers[0].num_kv_heads
        head_dim = max(max(layer.key_dim, layer.value_dim) for layer in layers)
        self.shape = ModelShape(
            num_layers=len(layers),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=whole.shape[-1],
            context_len=context_len_of(config),
            widest=widest_of(config, qkv=(num_heads + 2 * num_kv_heads) * head_dim),
        )
        return whole

    def _refusal(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"{type(self._model).__name__} {reason}, which the engine does not do; choose a model "
            "of another family"
        )


def _inputs(tokens: Tensor, positions: Tensor) -> dict[str, Any]:
    return {"input_ids": tokens[None], "position_ids": positions[None], "use_cache": False}


def _replace(model: nn.Module, part: nn.Module, other: nn.Module) -> None:
    """Put `other` where `model` has `part`."""
    name = next(name for name, module in model.named_modules() if module is part)
    model.set_submodule(name, other)
