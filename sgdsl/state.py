"""The state that a program's body appends to and reads from.

Owns `ProgramState`, its forks, roles and scopes: the user's side of a run. What is appended goes to
a recorder, what is read comes from a reader; neither is known further than by its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from sgdsl.api import check_name, role_expr
from sgdsl.checks import Predicate, condition_from, first_refusal, retries_from
from sgdsl.errors import UsageError
from sgdsl.explanation import Explanation
from sgdsl.expressions import Expr, Part, parts_of
from sgdsl.graph import ROOT, Assign, Ref, RoleBegin, RoleEnd, ScopeBegin, ScopeEnd
from sgdsl.outcome import Outcome
from sgdsl.reader import Reader
from sgdsl.recorder import Recorder


class ProgramState:
    """One branch of a run. `s += ...` appends; `s["x"]` reads, and waits for what it reads.

    Reads raise `ProgramError` (with the cause, the node and the user's line) when the run failed,
    `CancelledError` when it was cancelled, `UsageError` for a variable that does not exist.
    """

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

    def __getitem__(self, name: str | int) -> Any:
        """The variable `name`; with an int, the output of the unnamed gen at that position."""
        if not isinstance(name, int):
            check_name("s[...]", name)
        return self._reader.variable(self._branch, name)

    def __setitem__(self, name: str, value: object) -> None:
        check_name("s[...] = ...", name)
        assign = partial(Assign, name=name, value=value, text=str(value))
        self._recorder.write(self._branch, (assign,))

    def __contains__(self, name: str) -> bool:
        """Whether the variable is defined by what was appended so far; does not wait for it."""
        return self._reader.defines(self._branch, name)

    def __iter__(self) -> Iterator[Any]:
        raise UsageError("a state cannot be iterated over; read its text() or its variables")

    def get_var(self, name: str) -> Any:
        """The same as `s[name]`."""
        return self[name]

    def set_var(self, name: str, value: object) -> None:
        """The same as `s[name] = value`."""
        self[name] = value

    def ref(self, name: str) -> Expr:
        """The text of an earlier variable, to append without reading it."""
        check_name("ref", name)
        return Expr((partial(Ref, name=name),))

    def text(self) -> str:
        """All text so far, once it is written."""
        text: str = self._reader.text(self._branch)
        return text

    def messages(self) -> list[dict[str, str]]:
        """The finished messages so far, in OpenAI's format."""
        messages: list[dict[str, str]] = self._reader.messages(self._branch)
        return messages

    def check(
        self,
        predicate: Predicate,
        *,
        retries: int = 3,
        name: str | None = None,
        message: str | None = None,
    ) -> Any:
        """Have the last gen written again, with another seed, until `predicate(value)` is true; at
        most `retries` times. Returns the value that passed.

        `name`: what to look at, if not that gen's own variable: a scope that has closed since. No
        is what is false, an `AssertionError`, a `ValueError`, or a value that its type refuses. All
        that was appended since the gen is written again too, as it was. `message` says what was
        asked for.

        Raises `CheckFailed` after that; `UsageError` where no gen stands before it on this branch,
        or a select, an assignment, a fork or a join came since.
        """
        if name is not None:
            check_name("check", name)
        condition, most = condition_from(predicate, message), retries_from(retries)
        node, conditions = self._recorder.check(self._branch, condition, name=name, retries=most)
        key = conditions[-1].key
        if self._recorder.is_trace:
            return self._reader.variable(self._branch, key)
        read = partial(self._reader.unread_variable, self._branch)
        for attempt in range(1, most + 2):
            due = conditions if attempt > 1 else conditions[-1:]  # the others have passed
            refusal = first_refusal(due, read)
            if refusal is None:
                return self._reader.variable(self._branch, key)
            if attempt > most:
                raise refusal.error(node)
            self._recorder.rewind(node, attempt)
        raise AssertionError("the last attempt passes or raises")

    def get_meta_info(self, name: str) -> dict[str, Any]:
        """What the backend tells about a gen or a select, such as its log-probabilities."""
        meta: dict[str, Any] = self._reader.meta(self._branch, name)
        return meta

    def explain(self) -> Explanation:
        """The run as a tree, over all its branches: what each node wrote, its tokens, time and
        log-probability, and where it failed. Does not wait: what goes on is shown as it stands.
        """
        return self._reader.explain()

    def text_iter(self, var_name: str | None = None) -> Iterator[str]:
        """The text, or that of one variable, in pieces as they arrive."""
        return self._reader.chunks(self._branch, var_name)

    def sync(self) -> None:
        """Wait until all that was appended is carried out, or the run has failed."""
        self._reader.wait(self._branch)

    def error(self) -> BaseException | None:
        """What ended the run before its time; waits like `sync`, does not raise."""
        self.sync()
        outcome = self.outcome
        return None if outcome is None else outcome.error

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while it goes on."""
        return self._reader.outcome

    @property
    def ret_value(self) -> Any:
        """What the body returned."""
        return self._reader.returned()

    def system(self, expr: str | Expr | None = None) -> Block:
        """A system message: `with s.system(): ...`, or `s += s.system("...")`."""
        return self._role("system", expr)

    def user(self, expr: str | Expr | None = None) -> Block:
        """A user message: `with s.user(): ...`, or `s += s.user("...")`."""
        return self._role("user", expr)

    def assistant(self, expr: str | Expr | None = None) -> Block:
        """An assistant message: `with s.assistant(): ...`, or `s += s.assistant(gen("x"))`."""
        return self._role("assistant", expr)

    def var_scope(self, name: str) -> Block:
        """`with s.var_scope("x"): ...` makes all text appended inside the variable `x`."""
        check_name("var_scope", name)
        begin, end = partial(ScopeBegin, name=name), partial(ScopeEnd, name=name)
        return self._block(begin, end, f"s.var_scope({name!r})")

    def fork(self, size: int = 1) -> StateForks:
        """`size` branches that start as copies of this one."""
        given: object = size
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise UsageError(f"fork({size!r}): the number of forks is a whole number, at least 1")
        children = self._recorder.fork(self._branch, size)
        states = [ProgramState(self._recorder, self._reader, child) for child in children]
        return StateForks(states, partial(self._recorder.join, self._branch, children))

    def copy(self) -> Copy:
        """`with s.copy() as c: ...`: one fork, joined at the end of the block."""
        return Copy(self.fork(1))

    def _role(self, role: str, expr: str | Expr | None) -> Block:
        begin, end = partial(RoleBegin, role=role), partial(RoleEnd, role=role)
        if expr is None:
            return self._block(begin, end, f"s.{role}()")
        self._recorder.write(self._branch, role_expr(role, expr).parts)
        return Block(self, None, begin=begin, end=end, shown=f"s.{role}(...)")

    def _block(self, begin: Part, end: Part, shown: str) -> Block:
        write = partial(self._recorder.write, self._branch)
        return Block(self, write, begin=begin, end=end, shown=shown)


class Block(Expr):
    """A role or a variable's scope: `with s.user(): ...` opens it on entry and closes it on exit.

    `s.user("hi")` is one that has been appended already, so that both `s.user("hi")` and
    `s += s.user("hi")` add it once.
    """

    __slots__ = ("_begin", "_end", "_shown", "_state", "_write")

    def __init__(
        self,
        state: ProgramState,
        write: Callable[[Sequence[Part]], None] | None,
        *,
        begin: Part,
        end: Part,
        shown: str,
    ) -> None:
        super().__init__(())
        self._state: ProgramState | None = state
        self._write = write
        self._begin = begin
        self._end = end
        self._shown = shown

    def __enter__(self) -> ProgramState:
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

    def consume(self, state: ProgramState) -> None:
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


class Copy:
    """`with s.copy() as c: ...`"""

    __slots__ = ("_forks",)

    def __init__(self, forks: StateForks) -> None:
        self._forks = forks

    def __enter__(self) -> ProgramState:
        return self._forks[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._forks.join()


class StateForks:
    """The branches that `s.fork(size)` opened."""

    __slots__ = ("_join", "_states")

    def __init__(self, states: list[ProgramState], join: Callable[[str], None]) -> None:
        self._states = states
        self._join = join

    def __getitem__(self, index: int) -> ProgramState:
        return self._states[index]

    def __setitem__(self, index: int, state: ProgramState) -> None:
        # Only `forks[i] += ...` comes here: it assigns what it has just read.
        if self._states[index] is not state:
            raise UsageError(f"forks[{index}] cannot be replaced; append to it with +=")

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProgramState]:
        return iter(self._states)

    def __iadd__(
        self, other: str | Expr | Sequence[str | Expr] | Callable[[int], str | Expr]
    ) -> Self:
        """Append the same to all, one entry of a list to each, or what `callable(index)` gives."""
        for state, expr in zip(self._states, self._each(other), strict=True):
            state.append(expr)
        return self

    def join(self, mode: str = "gather_variable") -> None:
        """Take the forks' work over into the state they come from.

        `gather_variable`: each name that is new since the fork becomes a list in the order of the
        forks. `concate_and_append`: their new text and messages are appended, in order. The forks
        cannot be appended to after it.
        """
        self._join(mode)

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
