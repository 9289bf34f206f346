"""The kernel that applies packed bitmasks to logits. The one module that imports Triton.

Owns one kernel: a program for each row and block of words. It writes only what is forbidden, so of
a mask that allows nearly all it moves the mask and little else.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK_WORDS = 64
"""Words of a mask that a program reads: 2,048 tokens."""


@triton.jit  # type: ignore[untyped-decorator]
def _forbid(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    logits,
    bitmask,
    vocab_size,
    logits_stride,
    bitmask_stride,
    WORDS: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0).to(tl.int64)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    bits = tl.arange(0, 32)
    tokens = words[:, None] * 32 + bits[None, :]
    packed = tl.load(bitmask + row * bitmask_stride + words, mask=words * 32 < vocab_size, other=-1)
    is_forbidden = ((packed[:, None] >> bits[None, :]) & 1) == 0
    places = logits + row * logits_stride + tokens
    tl.store(places, -float("inf"), mask=is_forbidden & (tokens < vocab_size))


def forbid(logits: Tensor, bitmask: Tensor) -> None:
    """As `runtime.sampling.bitmask.apply_bitmask`, of one row at least."""
    num_rows, vocab_size = logits.shape
    assert logits.stride(1) == 1 and bitmask.stride(1) == 1, "rows are contiguous"
    grid = (num_rows, triton.cdiv(vocab_size, 32 * BLOCK_WORDS))
    _forbid[grid](
        logits, bitmask, vocab_size, logits.stride(0), bitmask.stride(0), WORDS=BLOCK_WORDS
    )
