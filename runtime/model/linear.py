"""Linear layers as the lean decoder runs them: weights laid out once, when the model is loaded.

Owns the layouts of the weights. Knows nothing of the layers that they belong to.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Linear(Protocol):
    def __call__(self, x: Tensor) -> Tensor:
        """x: [num_rows, in_size]; returns [num_rows, out_size]."""

    def add_to(self, total: Tensor, x: Tensor) -> None:
        """Add the layer's output for `x` to `total` [num_rows, out_size], in place."""


class FloatLinear:
    """In float32 and bfloat16. The matrix stands as [in_size, out_size], which MKL multiplies a few
    rows with up to half as fast again as with the other one.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """weight: [out_size, in_size]; bias: [out_size]."""
        self._weight = weight.t().to(dtype).contiguous()
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        if self._bias is None:
            return torch.mm(x, self._weight)
        return torch.addmm(self._bias, x, self._weight)

    def add_to(self, total: Tensor, x: Tensor) -> None:
        total.addmm_(x, self._weight)
        if self._bias is not None:
            total += self._bias
