"""Expressions that are made again and again, by the same line for every row.

Owns what makes two calls of a primitive the same. Knows nothing of what it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MAX_CALLS = 4096
MAX_CHARS = 1000
"""Of each text: longer ones, such as a document, are seldom the same, and much to keep."""

_PLAIN = frozenset({int, float, bool, type(None)})


def remembered(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, which is called once for arguments that are short texts, numbers, truth values and
    plain classes: these are equal only if they are the same in every way. Others (a class with a
    metaclass too) are compared in ways of their own, or not at all. What it makes must not change;
    what it raises is raised again.
    """
    made = cast("Callable[P, T]", lru_cache(maxsize=MAX_CALLS, typed=True)(make))

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for value in (*args, *kwargs.values()):
            if type(value) is str:
                known = len(value) <= MAX_CHARS
            else:
                known = type(value) in _PLAIN or _is_plain_class(value)
            if not known:
                return make(*args, **kwargs)
        return made(*args, **kwargs)

    return call


def _is_plain_class(value: object) -> bool:
    kind = type(value)
    by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    return isinstance(value, type) and by_identity
