"""Packed bitmasks on logits: what a mask forbids becomes -inf, in place, where the logits are.

Owns the choice between the kernel for GPUs and plain torch, which is its reference. A bitmask is
int32 [num_rows, num_words]; bit i of word w stands for token 32 w + i, and is set where that is
allowed. Knows nothing of who fills it.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

WORD_BITS = 32


def apply_bitmask(logits: Tensor, bitmask: Tensor) -> None:
    """logits: floating point [num_rows, vocab_size]; bitmask: on the same device, with a word for
    every token. What is -inf or no number already stays so where it is allowed.
    """
    num_rows, vocab_size = logits.shape
    assert bitmask.dtype == torch.int32, "masks are packed into words of 32 bits"
    assert len(bitmask) == num_rows, "one mask for each row"
    assert bitmask.shape[1] * WORD_BITS >= vocab_size, "a mask has a bit for every token"
    if num_rows == 0:
        return
    if logits.is_cuda and has_kernel():
        from runtime.sampling.bitmask_kernel import forbid

        forbid(logits, bitmask)
    else:
        logits.masked_fill_(~unpack_bits(bitmask, vocab_size), -torch.inf)


def unpack_bits(bitmask: Tensor, vocab_size: int) -> Tensor:
    """int32 [num_rows, num_words] -> bool [num_rows, vocab_size], on the mask's device."""
    places = torch.arange(WORD_BITS, dtype=torch.int32, device=bitmask.device)
    bits = (bitmask[:, :, None] >> places) & 1
    return bits.view(len(bitmask), -1)[:, :vocab_size].bool()


def has_kernel() -> bool:
    """Whether Triton, which comes with torch's builds for GPUs, is there."""
    return find_spec("triton") is not None
