"""Values that are made when somebody reads them.

Owns the parse of typed values. It runs validators, which are the user's code: they may be slow,
raise anything, or call a model on the backend that has written the text. So a backend's thread only
keeps the text, and who reads the value parses it. No lock is held meanwhile. Knows nothing of runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sgdsl.errors import ProgramError
from sgdsl.graph import Gen
from sgdsl.outcome import failure

_first = threading.Lock()


class Lazy:
    """A value by how it is made. Of two threads that read it at once, both make it, and both get
    what the first one has made.
    """

    __slots__ = ("_make", "_value", "parts")

    def __init__(self, make: Callable[[], Any], parts: Sequence[Lazy] = ()) -> None:
        self._make: Callable[[], Any] | None = make
        self._value: Any = None
        self.parts = parts

    @property
    def made(self) -> bool:
        return self._make is None

    def read(self) -> Any:
        make = self._make
        if make is not None:
            value = make()
            with _first:
                if self._make is not None:
                    self._value, self._make = value, None
        return self._value


def typed(node: Gen, text: str) -> Lazy:
    """The value of a typed gen that wrote `text`. Reading it raises `ProgramError` if there is
    none; only Ctrl-C comes through as it is.
    """
    return Lazy(partial(_parse, node, text))


def gathered(values: list[Any]) -> Any:
    """The list of these values."""
    lazy = [value for value in values if isinstance(value, Lazy)]
    return Lazy(partial(_read_all, values), lazy) if lazy else values


def collected(values: list[Any]) -> Any:
    """The list of these values; in place of one that cannot be made stands why."""
    lazy = [value for value in values if isinstance(value, Lazy)]
    return Lazy(partial(_try_all, values), lazy) if lazy else values


def leaves(values: Iterable[Any]) -> Iterator[Lazy]:
    """The lazy values among these, and those that they are made of."""
    for value in values:
        if isinstance(value, Lazy):
            yield value
            yield from leaves(value.parts)


def _parse(node: Gen, text: str) -> Any:
    assert node.constraint is not None, "a typed gen has the constraint of its type"
    try:
        return node.constraint.parse(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: it must not end the thread that reads
        raise failure(error, node=node, source=node.source) from error


def _read_all(values: Sequence[Any]) -> list[Any]:
    return [value.read() if isinstance(value, Lazy) else value for value in values]


def _try_all(values: Sequence[Any]) -> list[Any]:
    return [_try(value) if isinstance(value, Lazy) else value for value in values]


def _try(value: Lazy) -> Any:
    try:
        return value.read()
    except ProgramError as error:
        return error
