"""The state that a program's body appends to and reads from.

Owns `ProgramState`: the reads that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar as PlainTypeVar, overload

from sgdsl.branch_state import BranchState, R
from sgdsl.checks import Predicate
from sgdsl.typed_reads import as_type

T = PlainTypeVar("T")


class ProgramState(BranchState[R]):
    """One branch of a run. `s += ...` appends; `s["x"]` reads, and waits for what it reads.

    Reads raise `ProgramError` (with the cause, the node and the user's line) when the run failed,
    `CancelledError` when it was cancelled, `UsageError` for a variable that does not exist.
    `ProgramState[R]`: the state of a body that returns an `R`.
    """

    __slots__ = ()

    @overload
    def get(self, name: str | int) -> Any: ...

    @overload
    def get(self, name: str | int, type: type[T]) -> T: ...

    @overload
    def get(self, name: str | int, type: Any) -> Any: ...

    def get(self, name: str | int, type: Any = None) -> Any:  # noqa: A002 - as in `gen`
        """`s[name]`, as a value of `type`: any that pydantic knows.

        A value that is no text is checked to be of the type, and comes back as it is. A text is
        parsed, as `gen(type=...)` would. Raises `UsageError` for a value of another type,
        `ProgramError` for a text that is none.
        """
        value = self[name]
        return value if type is None else as_type(value, type, name)

    def get_var(self, name: str) -> Any:
        """The same as `s[name]`."""
        return self[name]

    def variables(self) -> dict[str, Any]:
        """All variables so far by name, once they are written."""
        variables: dict[str, Any] = self._reader.variables(self._branch)
        return variables

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
        key, attempts = self._attempts(predicate, retries=retries, name=name, message=message)
        for _ in attempts:
            pass
        return self._reader.variable(self._branch, key)

    def get_meta_info(self, name: str) -> dict[str, Any]:
        """What the backend tells about a gen or a select, such as its log-probabilities."""
        meta: dict[str, Any] = self._reader.meta(self._branch, name)
        return meta

    def text_iter(self, var_name: str | None = None) -> Iterator[str]:
        """The text, or that of one variable, in pieces as they arrive."""
        return self._reader.chunks(self._branch, var_name)

    def sync(self) -> None:
        """Wait until all that was appended is carried out, or the run has failed."""
        self._reader.wait(self._branch)

    def error(self) -> BaseException | None:
        """What ended the run, or this fork, before its time; waits like `sync`, does not raise."""
        self.sync()
        return self._reader.error(self._branch)
