"""Bounds of repetitions. Owns their arithmetic: a counter of counters, several as one."""

from __future__ import annotations

from grammars.expr import Repeat


def flatten(body: Repeat, low: int, high: int | None) -> tuple[int, int | None] | None:
    """The bounds of (x{m,n}){low,high} as one repetition of x, or None where counts have gaps."""
    m, n = body.low, body.high
    most = None if high is None or n is None else n * high
    if low == 0:
        contiguous = m <= 1
    else:  # the counts of k and of k + 1 rounds must meet; the narrowest place is k = low
        contiguous = low == high or n is None or m <= low * (n - m) + 1
    return (m * low, most) if contiguous else None


def join_bounds(bounds: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """Intervals of counts, sorted, with those that overlap or touch made one."""
    joined: list[tuple[int, int | None]] = []
    for low, high in sorted(bounds, key=lambda pair: pair[0]):
        if joined:
            first, last = joined[-1]
            if last is None:
                break
            if low <= last + 1:
                joined[-1] = (first, None if high is None else max(last, high))
                continue
        joined.append((low, high))
    return joined
