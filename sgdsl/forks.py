"""The branches that a state opens, seen from its body.

Owns `s.fork(n)` and `s.copy()` once their branches exist: appending to all, and the join. Knows a
state only by what can be appended to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from sgdsl.errors import UsageError
from sgdsl.expressions import Expr

JoinError = Literal["raise", "collect"]


class Appendable(Protocol):
    def append(self, other: str | Expr) -> None: ...


S = TypeVar("S", bound=Appendable)
JoinCall = Callable[[str, str], None]
"""Writes a join: its mode, and what becomes of a fork that has failed."""


class Copy(Generic[S]):
    """`with s.copy() as c: ...`"""

    __slots__ = ("_forks",)

    def __init__(self, forks: StateForks[S]) -> None:
        self._forks = forks

    def __enter__(self) -> S:
        return self._forks[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._forks.join()


class StateForks(Generic[S]):
    """The branches that `s.fork(size)` opened."""

    __slots__ = ("_join", "_states")

    def __init__(self, states: list[S], join: JoinCall) -> None:
        self._states = states
        self._join = join

    def __getitem__(self, index: int) -> S:
        given: object = index
        if isinstance(given, str):
            raise UsageError(
                f"forks[{index!r}]: forks are counted from 0; read one fork's variable with "
                f"forks[0][{index!r}], or after forks.join() the list of all with s[{index!r}]"
            )
        return self._states[index]

    def __setitem__(self, index: int, state: S) -> None:
        # Only `forks[i] += ...` comes here: it assigns what it has just read.
        if self._states[index] is not state:
            raise UsageError(f"forks[{index}] cannot be replaced; append to it with +=")

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[S]:
        return iter(self._states)

    def __iadd__(
        self, other: str | Expr | Sequence[str | Expr] | Callable[[int], str | Expr]
    ) -> Self:
        """Append the same to all, one entry of a list to each, or what `callable(index)` gives."""
        for state, expr in zip(self._states, self._each(other), strict=True):
            state.append(expr)
        return self

    def join(self, mode: str = "gather_variable", *, on_error: JoinError = "raise") -> None:
        """Take the forks' work over into the state they come from.

        `gather_variable`: each name that is new since the fork becomes a list in the order of the
        forks. `concate_and_append`: their new text and messages are appended, in order. The forks
        cannot be appended to after it.

        A fork that has failed fails the branch that joins it. `on_error="collect"`: its
        `ProgramError` stands in the lists, in place of each value that it has not come to, and its
        text is left out; the run goes on. `forks[i].error()` tells too.
        """
        given: object = on_error
        if given not in ("raise", "collect"):
            raise UsageError(
                f'join: on_error={on_error!r} is not allowed; on_error is "raise" or "collect"'
            )
        self._join(mode, on_error)

    def _each(self, other: object) -> Sequence[Any]:
        if isinstance(other, (str, Expr)):
            return [other] * len(self)
        if isinstance(other, (list, tuple)):
            if len(other) != len(self):
                raise UsageError(
                    f"forks += a list of {len(other)} for {len(self)} forks; give one entry a fork"
                )
            return other
        if callable(other):
            return [other(index) for index in range(len(self))]
        raise UsageError(
            f"forks += {other!r} is not allowed; append a str, an expression, a list with one "
            "entry a fork, or a function of the fork's index"
        )
