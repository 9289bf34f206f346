"""What the states of all bodies have: `async def` or not.

Owns what can be appended to a branch, and what of it is known without a wait. What is appended goes
to a recorder, what is read comes from a reader; neither is known further than by its methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, Self, overload

from typing_extensions import TypeVar

from sgdsl.api import check_name, role_expr
from sgdsl.blocks import Block
from sgdsl.checks import Condition, Predicate, condition_from, first_refusal, retries_from
from sgdsl.errors import UsageError
from sgdsl.explanation import Explanation
from sgdsl.expressions import Expr, Part, parts_of, role_begin, role_end
from sgdsl.forks import Copy, StateForks
from sgdsl.graph import ROOT, Assign, Ref, ScopeBegin, ScopeEnd
from sgdsl.outcome import Outcome
from sgdsl.reader import Reader
from sgdsl.recorder import Recorder

R = TypeVar("R", default=Any)


class Plain(Protocol):
    """To a type checker: any object that is no state, of all that objects have one method is
    declared away there. So it tells `f(s, ...)`, a part of a run, from `f(...)`, a run.
    """

    def __sizeof__(self) -> int: ...


class BranchState(Generic[R]):
    """One branch of a run: what can be appended to it, and what is known of it without a wait."""

    __slots__ = ("_branch", "_reader", "_recorder")

    def __init__(self, recorder: Recorder, reader: Reader, branch: int = ROOT) -> None:
        self._recorder = recorder
        self._reader = reader
        self._branch = branch

    def __iadd__(self, other: str | Expr) -> Self:
        self.append(other)
        return self

    def append(self, other: str | Expr) -> None:
        """The same as `s += other`."""
        if isinstance(other, Block):
            other.consume(self)
        self._recorder.write(self._branch, parts_of(other, "s += ..."))

    def __setitem__(self, name: str, value: object) -> None:
        check_name("s[...] = ...", name)
        assign = partial(Assign, name=name, value=value, text=str(value))
        self._recorder.write(self._branch, (assign,))

    def set_var(self, name: str, value: object) -> None:
        """The same as `s[name] = value`."""
        self[name] = value

    if TYPE_CHECKING:
        __sizeof__: None  # type: ignore[assignment]  # see `Plain`

    else:  # to a type checker there is neither

        def __add__(self, other: object) -> NoReturn:
            raise UsageError("s + ... makes no new state; append to this one, with s += ...")

        def __iter__(self) -> NoReturn:
            raise UsageError("a state cannot be iterated over; read its text() or its variables")

    def __repr__(self) -> str:
        outcome = self.outcome
        status = "running" if outcome is None else outcome.status
        return f"<{type(self).__name__} of a run: {status}>"

    def ref(self, name: str) -> Expr:
        """The text of an earlier variable, to append without reading it."""
        check_name("ref", name)
        return Expr((partial(Ref, name=name),))

    def system(self, expr: str | Expr | None = None) -> Block[Self]:
        """A system message: `with s.system(): ...`, or `s += s.system("...")`."""
        return self._role("system", expr)

    def user(self, expr: str | Expr | None = None) -> Block[Self]:
        """A user message: `with s.user(): ...`, or `s += s.user("...")`."""
        return self._role("user", expr)

    def assistant(self, expr: str | Expr | None = None) -> Block[Self]:
        """An assistant message: `with s.assistant(): ...`, or `s += s.assistant(gen("x"))`."""
        return self._role("assistant", expr)

    def var_scope(self, name: str) -> Block[Self]:
        """`with s.var_scope("x"): ...` makes all text appended inside the variable `x`."""
        check_name("var_scope", name)
        begin, end = partial(ScopeBegin, name=name), partial(ScopeEnd, name=name)
        return self._block(begin, end, f"s.var_scope({name!r})")

    def fork(self, size: int = 1) -> StateForks[Self]:
        """`size` branches that start as copies of this one."""
        given: object = size
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise UsageError(f"fork({size!r}): the number of forks is a whole number, at least 1")
        children = self._recorder.fork(self._branch, size)
        states = [type(self)(self._recorder, self._reader, child) for child in children]
        return StateForks(states, partial(self._recorder.join, self._branch, children))

    def copy(self) -> Copy[Self]:
        """`with s.copy() as c: ...`: one fork, joined at the end of the block."""
        return Copy(self.fork(1))

    def cancel(self) -> None:
        """End the whole run, here and now. It is `cancelled`, unless it has ended before."""
        self._reader.cancel()

    def __getitem__(self, name: str | int) -> Any:
        """The variable `name`; with an int, the output of the unnamed gen at that position."""
        if not isinstance(name, int):
            check_name("s[...]", name)
        return self._reader.variable(self._branch, name)

    def __contains__(self, name: str) -> bool:
        """Whether the variable is defined by what was appended so far; does not wait for it."""
        return self._reader.defines(self._branch, name)

    def explain(self) -> Explanation:
        """The run as a tree, over all its branches: what each node wrote, its tokens, time and
        log-probability, and where it failed. Does not wait: what goes on is shown as it stands.
        """
        return self._reader.explain()

    @overload
    def text_async_iter(
        self, var_name: str | None = None, return_meta_data: Literal[False] = False
    ) -> AsyncIterator[str]: ...

    @overload
    def text_async_iter(
        self, var_name: str, return_meta_data: Literal[True]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]: ...

    def text_async_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """The text, or that of one variable, in pieces as they arrive: `async for ... in`.

        `return_meta_data`: pairs of a piece of the variable and what is known of it by then. All
        but the last say `{"finish_reason": None}`, the last has the meta info of the variable; its
        piece may be empty.
        """
        return self._reader.chunks_async(self._branch, var_name, with_meta=return_meta_data)

    @property
    def ret_value(self) -> R:
        """What the body returned."""
        value: R = self._reader.returned()
        return value

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""
        return self._reader.outcome

    def _attempts(
        self, predicate: Predicate, *, retries: int, name: str | None, message: str | None
    ) -> tuple[str | int, Iterator[Sequence[Condition]]]:
        """The variable that a check is about, and its attempts: what is going to be read, before it
        is. They end when all holds. Raises `CheckFailed` after the last of them.
        """
        if name is not None:
            check_name("check", name)
        condition, most = condition_from(predicate, message), retries_from(retries)
        node, conditions = self._recorder.check(self._branch, condition, name=name, retries=most)
        read = partial(self._reader.unread_variable, self._branch)

        def attempts() -> Iterator[Sequence[Condition]]:
            due = conditions[-1:]  # the others have passed
            for attempt in range(1, most + 2):
                yield due
                refusal = first_refusal(due, read)
                if refusal is None:
                    return
                if attempt > most:
                    raise refusal.error(node)
                self._recorder.rewind(node, attempt)
                due = conditions

        return conditions[-1].key, iter(()) if self._recorder.is_trace else attempts()

    def _role(self, role: str, expr: str | Expr | None) -> Block[Self]:
        begin, end = role_begin(role), role_end(role)
        if expr is None:
            return self._block(begin, end, f"s.{role}()")
        self._recorder.write(self._branch, role_expr(role, expr).parts)
        return Block(self, None, begin=begin, end=end, shown=f"s.{role}(...)")

    def _block(self, begin: Part, end: Part, shown: str) -> Block[Self]:
        write = partial(self._recorder.write, self._branch)
        return Block(self, write, begin=begin, end=end, shown=shown)
