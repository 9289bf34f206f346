"""Blocks of a state: `with s.user(): ...` and `with s.var_scope("x"): ...`.

Owns what opens on entry, closes on exit, and is appended only once. Knows a state only by its
outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, NoReturn, Protocol, TypeVar

from sgdsl.errors import UsageError
from sgdsl.expressions import Expr, Part
from sgdsl.outcome import Outcome


class Ending(Protocol):
    """What a block asks of its state."""

    @property
    def outcome(self) -> Outcome | None: ...


S = TypeVar("S", bound=Ending)


class Block(Expr, Generic[S]):
    """A role or a variable's scope: `with s.user(): ...` opens it on entry and closes it on exit.

    `s.user("hi")` is one that has been appended already, so that both `s.user("hi")` and
    `s += s.user("hi")` add it once.
    """

    __slots__ = ("_begin", "_end", "_shown", "_state", "_write")

    def __init__(
        self,
        state: S,
        write: Callable[[Sequence[Part]], None] | None,
        *,
        begin: Part,
        end: Part,
        shown: str,
    ) -> None:
        super().__init__(())
        self._state: S | None = state
        self._write = write
        self._begin = begin
        self._end = end
        self._shown = shown

    def __enter__(self) -> S:
        if self._state is None or self._write is None:
            self._refuse()
        self._write((self._begin,))
        return self._state

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._state is not None and self._write is not None, "what is left was entered"
        if error is None or self._state.outcome is None:  # do not hide why the run has ended
            self._write((self._end,))

    def consume(self, state: object) -> None:
        """Stand in `state += self`: nothing is left to append, and only once."""
        if self._state is not state or self._write is not None:
            self._refuse()
        self._state = None

    def __add__(self, other: object) -> Expr:
        self._refuse()

    def __radd__(self, other: object) -> Expr:
        self._refuse()

    def __repr__(self) -> str:
        return self._shown

    def _refuse(self) -> NoReturn:
        if self._write is not None:
            raise UsageError(f"{self!r} opens a block; write `with {self!r}:`, or give it its text")
        raise UsageError(
            f"{self!r} has been appended to its state already; let it stand alone, or join "
            f"{self._shown.removeprefix('s.')} with other text"
        )
