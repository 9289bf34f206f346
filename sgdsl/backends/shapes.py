"""Reading JSON that a provider made: what is missing or of another type is said, with its path.

Owns that one look. Knows no provider.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sgdsl.errors import ProviderError
from sgdsl.graph import shorten

T = TypeVar("T")


def dig(label: str, value: Any, kind: type[T], *path: str | int) -> T:
    """The `kind` at `path` of `value`. Raises `ProviderError` where there is none."""
    for index, step in enumerate(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise ProviderError(
                f"{label} answered in another shape than expected: there is no "
                f"{_show(path[: index + 1])} in {shorten(repr(value), 200)}"
            ) from None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProviderError(
            f"{label} answered in another shape than expected: {_show(path)} is "
            f"{shorten(repr(value), 120)}, no {kind.__name__}"
        )
    return value


@contextmanager
def shaped(label: str, what: str, value: Any) -> Iterator[None]:
    """Whoever looks into `value` here finds what it expects, or the provider is to blame."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        raise ProviderError(
            f"{label} told {what} in another shape than expected: {shorten(repr(value), 200)}"
        ) from None


def log_probability(value: Any) -> float:
    """Raises `ValueError` or `TypeError` for what is none; some providers round to above 0."""
    number = float(value)
    if isinstance(value, str) or math.isnan(number) or number > 1:
        raise ValueError
    return number


def count(value: Any, *path: str) -> int | None:
    """The whole number at `path`; None when the provider does not tell it."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _show(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
