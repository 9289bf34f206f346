"""How fast this machine multiplies the model's own matrices, and how much of that a run used.

Owns the measured ceiling: the layers' products alone, with nothing between them, over weights that
do not fit into the caches together. No LM head and no attention.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

MAX_WEIGHT_BYTES = 256 << 20
"""Layers are made up to that, several times what caches hold, and used again and again."""

ROUNDS = 3

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerShapes:
    """`sizes`: (inputs, outputs) of the matrices of one layer."""

    num_layers: int
    sizes: tuple[tuple[int, int], ...]

    @property
    def num_weights(self) -> int:
        """Of all layers."""
        return self.num_layers * sum(inputs * outputs for inputs, outputs in self.sizes)

    def flops(self, num_tokens: int) -> float:
        """A multiplication and an addition for each weight and token."""
        return 2.0 * self.num_weights * num_tokens


@dataclass(frozen=True)
class Ceiling:
    """FLOPs for each second of the wall, and for each second of this process's CPU."""

    num_rows: int
    per_wall_s: float
    per_cpu_s: float


def shapes_of(folder: Path) -> LayerShapes | None:
    """Of a model of the Llama-like families; None of others, whose layers have other parts."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        heads = config["num_attention_heads"]
        head_dim = config.get("head_dim") or hidden // heads
        num_kv = config.get("num_key_value_heads") or heads
        sizes = (
            (hidden, (heads + 2 * num_kv) * head_dim),
            (heads * head_dim, hidden),
            (hidden, 2 * inner),
            (inner, hidden),
        )
        return LayerShapes(config["num_hidden_layers"], sizes)
    except KeyError:
        return None


@torch.inference_mode()
def measure_ceiling(shapes: LayerShapes, num_rows: int, dtype: str) -> Ceiling:
    """With `num_rows` rows, the best of some rounds over all layers. dtype: of the weights."""
    layer_bytes = 4 * shapes.num_weights // shapes.num_layers
    num_made = max(1, min(shapes.num_layers, MAX_WEIGHT_BYTES // layer_bytes))
    layers = [[_product(*size, dtype) for size in shapes.sizes] for _ in range(num_made)]
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    inputs = [torch.randn(num_rows, size[0]).to(kind) for size in shapes.sizes]

    def once() -> None:
        for index in range(shapes.num_layers):
            for product, x in zip(layers[index % num_made], inputs, strict=True):
                product(x)

    once()
    walls, cpus = [], []
    for _ in range(ROUNDS):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        once()
        walls.append(time.perf_counter() - wall_s)
        cpus.append(time.process_time() - cpu_s)
    flops = shapes.flops(num_rows)
    return Ceiling(num_rows, flops / min(walls), flops / min(cpus))


def _product(num_inputs: int, num_outputs: int, dtype: str) -> Product:
    weight = torch.randn(num_inputs, num_outputs)
    if dtype != "int8":
        stored = weight.to(torch.bfloat16 if dtype == "bfloat16" else torch.float32)
        return lambda x: torch.mm(x, stored)
    scales, zeros = torch.ones(num_outputs, dtype=torch.double), torch.zeros(num_outputs)
    with warnings.catch_warnings():
        # The kernel takes its weights in no other form yet.
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_channel(weight.t(), scales, zeros.long(), 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(quantized, None)
    multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    return lambda x: multiply(x, 1.0, 64, packed)
