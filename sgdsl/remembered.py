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
_PLAIN = frozenset({str, int, float, bool, type(None)})


def remembered(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, which is called once for arguments that are texts, numbers, truth values and classes:
    these are equal only if they are the same in every way. Others are compared in ways of their
    own, or not at all. What it makes must not change; what it raises is raised again.
    """
    made = cast("Callable[P, T]", lru_cache(maxsize=MAX_CALLS, typed=True)(make))

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for value in (*args, *kwargs.values()):
            if type(value) not in _PLAIN and not isinstance(value, type):
                return make(*args, **kwargs)
        return made(*args, **kwargs)

    return call
