"""The lean decoder: one plain network for the Llama-like families.

Owns which models it runs (Llama, SmolLM, Mistral, Qwen2, Qwen3), and their layers in few operators:
query, key and value are one projection, gate and up another one, and the weights of the norms are
part of the projections behind them. Weights come from a model that
transformers has loaded, whose layers are given up one by one while they are taken over.

Source: Touvron et al., LLaMA (arXiv:2302.13971); Su et al., RoFormer (arXiv:2104.09864); Zhang and
Sennrich, Root Mean Square Layer Normalization (arXiv:1910.07467).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from runtime.attention.base import AttentionKind, AttentionPlan
from runtime.model.base import shape_of
from runtime.model.linear import FloatLinear, Int8Linear, Linear, SummedLinear

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type`; SmolLM and SmolLM2 are Llamas."""

FIXED_ROPES = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding whose frequencies are the same whatever the length of the text."""


ROTATION_SEED = 0
"""Any would do; always the same, so that a model is the same whenever it is loaded."""


def is_lean(config: Any) -> bool:
    """Whether the lean decoder computes what transformers' model with this config does."""
    if config.model_type not in FAMILIES or getattr(config, "quantization_config", None):
        return False
    ropes = config.rope_parameters
    return (
        config.hidden_act == "silu"
        and ropes.get("rope_type", "default") in FIXED_ROPES
        and ropes.get("partial_rotary_factor") in (None, 1.0)
        and set(_layer_types(config)) <= {"full_attention", "sliding_attention"}
    )


def _layer_types(config: Any) -> list[str]:
    """Of each layer, as transformers names them."""
    types: list[str] | None = getattr(config, "layer_types", None)
    if types is None:
        windowed = config.model_type == "mistral" and config.sliding_window is not None
        types = ["sliding_attention" if windowed else "full_attention"] * config.num_hidden_layers
    return types


@dataclass(frozen=True, slots=True)
class Layer:
    """query_norm, key_norm: [head_dim], of Qwen3."""

    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None


class LeanModel:
    """A model of which `is_lean` holds.

    In int8 its hidden states are multiplied with an orthogonal matrix, and the weights that read
    and write them with its inverse: what is computed stays, but no few columns are far larger than
    the others any more (QuaRot, arXiv:2404.00456). Embedding and head stay as they are, in float32.
    """

    def __init__(
        self,
        model: Any,
        *,
        dtype: torch.dtype,
        add_up: Callable[[Tensor], None] | None = None,
    ) -> None:
        """dtype: float32, bfloat16, or int8 for the layers' matrices. `model`, in float32, is of no
        use afterwards: its layers are gone. add_up: sums over the processes that the model was
        split over.
        """
        self._add_up = add_up
        config, decoder = model.config, model.get_decoder()
        self._int8 = dtype == torch.int8
        self._dtype = dtype = torch.float32 if self._int8 else dtype
        self._rotation = _orthogonal(config.hidden_size) if self._int8 else None
        self.shape = shape_of(model)
        scale = self.shape.head_dim**-0.5
        self._kinds = [
            AttentionKind(scale, config.sliding_window if kind == "sliding_attention" else None)
            for kind in _layer_types(config)
        ]
        self.attention_kinds: tuple[AttentionKind, ...] = tuple(dict.fromkeys(self._kinds))
        self._num_heads: int = config.num_attention_heads
        self._eps: float = config.rms_norm_eps
        self._embedding: Tensor = decoder.embed_tokens.weight.to(dtype)
        self._head: Tensor = model.get_output_embeddings().weight.to(dtype)
        self._norm: Tensor = decoder.norm.weight.to(dtype)
        rotary = decoder.rotary_emb
        self._frequencies: Tensor = rotary.inv_freq.float()  # [head_dim / 2]
        self._rope_scale: float = rotary.attention_scaling
        self._layers: list[Layer] = []
        while decoder.layers:
            self._layers.append(self._take_over(decoder.layers[0]))
            del decoder.layers[0]

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        plan: AttentionPlan,
        needed: Tensor | None = None,
    ) -> Tensor:
        """See `Model`."""
        x = functional.embedding(token_ids, self._embedding)
        if self._rotation is not None:
            x = x @ self._rotation
        angles = positions[:, None, None] * self._frequencies
        rotation = torch.polar(torch.full_like(angles, self._rope_scale), angles)
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            attended = self._attend(index, layer, x, rotation, plan)
            if index == last and needed is not None:
                # Of the others, nothing behind this layer's keys and values is ever read.
                x, attended = x[needed], attended[needed]
                if not len(needed):
                    return x
            layer.out.add_to(x, attended)
            gate, up = layer.gate_up(self._normed(x)).chunk(2, dim=-1)
            layer.down.add_to(x, functional.silu(gate).mul_(up))
        x = self._normed(x)
        if self._rotation is not None:
            x = x @ self._rotation.t()
        return x * self._norm

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """hidden: [num_rows, hidden_size]; tokens: int64 [num_tokens], None for all of them.
        Returns float32 [num_rows, num_tokens].
        """
        head = self._head if tokens is None else self._head[tokens]
        # MKL multiplies few rows up to twice as fast this way round.
        return torch.mm(head, hidden.t()).t().float().contiguous()

    def _attend(
        self, index: int, layer: Layer, x: Tensor, rotation: Tensor, plan: AttentionPlan
    ) -> Tensor:
        """The heads' outputs, side by side. [num_tokens, num_heads * head_dim]"""
        num_heads, num_turned = self._num_heads, self._num_heads + self.shape.num_kv_heads
        heads = layer.qkv(self._normed(x)).view(len(x), -1, self.shape.head_dim)
        turned, values = heads[:, :num_turned], heads[:, num_turned:]
        if layer.query_norm is not None and layer.key_norm is not None:
            queries = self._normed(turned[:, :num_heads]) * layer.query_norm
            keys = self._normed(turned[:, num_heads:]) * layer.key_norm
            turned = torch.cat([queries, keys], dim=1)
        turned = _rotated(turned, rotation)
        queries, keys = turned[:, :num_heads], turned[:, num_heads:]
        attended = plan.run(index, queries, keys, values, kind=self._kinds[index])
        return attended.view(len(x), -1)

    def _normed(self, x: Tensor) -> Tensor:
        """Each vector of the last dimension, divided by its root mean square."""
        wide = x.float()
        squares: Tensor = torch.linalg.vecdot(wide, wide)
        return (wide * torch.rsqrt(squares / x.shape[-1] + self._eps)[..., None]).to(x.dtype)

    def _take_over(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        before, between = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        dim = self.shape.head_dim
        turned = [_interleaved(part, dim) for part in (attention.q_proj, attention.k_proj)]
        query_norm = getattr(attention, "q_norm", None)
        key_norm = getattr(attention, "k_norm", None)
        return Layer(
            qkv=self._reading([*turned, _plain(attention.v_proj)], before),
            out=self._writing(attention.o_proj),
            gate_up=self._reading([_plain(mlp.gate_proj), _plain(mlp.up_proj)], between),
            down=self._writing(mlp.down_proj, mix=True),
            query_norm=None
            if query_norm is None
            else _halves_mixed(query_norm.weight, dim).to(self._dtype),
            key_norm=None
            if key_norm is None
            else _halves_mixed(key_norm.weight, dim).to(self._dtype),
        )

    def _reading(self, parts: list[Part], norm: Tensor) -> Linear:
        """One projection of the hidden states for all parts, behind a norm of these weights."""
        weight = torch.cat([weight for weight, _ in parts]) * norm
        biases = [bias for _, bias in parts if bias is not None]
        assert len(biases) in (0, len(parts)), "all parts of a projection have a bias, or none has"
        if self._rotation is not None:
            weight = weight @ self._rotation
        return self._linear(weight, torch.cat(biases) if biases else None)

    def _writing(self, linear: Any, *, mix: bool = False) -> Linear:
        """A projection whose output is added to the hidden states."""
        weight, bias = _plain(linear)
        if self._rotation is not None:
            weight = self._rotation.t() @ weight
            bias = None if bias is None else bias @ self._rotation
        own = self._linear(weight, bias, mix=mix)
        return own if self._add_up is None else SummedLinear(own, self._add_up)

    def _linear(self, weight: Tensor, bias: Tensor | None, *, mix: bool = False) -> Linear:
        if self._int8:
            return Int8Linear(weight, bias, mix=mix)
        return FloatLinear(weight, bias, self._dtype)


Part = tuple[Tensor, Tensor | None]
"""A projection's weight [out_size, in_size] and bias [out_size]."""


def _orthogonal(size: int) -> Tensor:
    generator = torch.Generator().manual_seed(ROTATION_SEED)
    normal = torch.randn(size, size, generator=generator, dtype=torch.float64)
    orthogonal: Tensor = torch.linalg.qr(normal)[0]
    return orthogonal.float()


def _plain(linear: Any) -> Part:
    return linear.weight, linear.bias


def _interleaved(linear: Any, head_dim: int) -> Part:
    """transformers rotates number i of a head with number i + head_dim / 2. Here they are
    neighbours, so that a pair is a complex number, and a rotation is one multiplication. Queries
    and keys are reordered alike, so that their products stay.
    """
    bias = None if linear.bias is None else _halves_mixed(linear.bias, head_dim)
    return _halves_mixed(linear.weight, head_dim), bias


def _halves_mixed(rows: Tensor, head_dim: int) -> Tensor:
    """rows: [num_heads * head_dim, ...]."""
    halves = rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape)


def _rotated(heads: Tensor, rotation: Tensor) -> Tensor:
    """heads: [num_tokens, num_heads, head_dim]; rotation: complex [num_tokens, 1, head_dim / 2]."""
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:2], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(heads.dtype)
