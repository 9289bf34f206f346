"""Predicates on what a model wrote.

Owns what counts as a no, and the error at the end of all attempts. A predicate is the user's code:
it is called on the body's thread. How a branch goes back is the machine's business.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sgdsl.arguments import refuse
from sgdsl.errors import CheckFailed, ProgramError, SgdslError, told
from sgdsl.graph import Check, shorten
from sgdsl.values import Lazy

Predicate = Callable[[Any], object]

MAX_RETRIES = 1000
"""Of one check: each is a whole output of the model."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`key`: the variable that is looked at; an int is an unnamed gen's position."""

    predicate: Predicate
    message: str | None
    key: str | int = 0

    def of(self, key: str | int) -> Condition:
        return replace(self, key=key)

    def refusal(self, value: object) -> Refusal | None:
        """Why `value` does not pass; None when it does."""
        cause: Exception | None = None
        try:
            if isinstance(value, Lazy):
                value = value.read()
            if self.predicate(value):
                return None
        except ProgramError as error:  # no value of its type
            if not isinstance(value, Lazy):
                raise
            value, cause = None, error
        except SgdslError:
            raise
        except (AssertionError, ValueError) as error:
            cause = error
        return Refusal(self, value, cause)

    def __str__(self) -> str:
        name = getattr(self.predicate, "__qualname__", None) or repr(self.predicate)
        shown = str(name).rpartition("<locals>.")[2]
        code = getattr(self.predicate, "__code__", None)
        if shown == "<lambda>" and code is not None:
            shown = f"the lambda at {code.co_filename}:{code.co_firstlineno}"
        return shown if self.message is None else f"{shown} ({self.message})"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`value` (None: it could not be read) did not pass `condition`, because of `cause` if any."""

    condition: Condition
    value: object
    cause: Exception | None

    def error(self, node: Check) -> CheckFailed:
        """What is raised when nothing more is tried."""
        said = f": {told(self.cause)}" if self.cause is not None else ""
        times = "once" if node.retries == 0 else f"{node.retries + 1} times"
        what = f"unnamed gen {self.condition.key}" if node.name is None else repr(node.name)
        if isinstance(self.condition.key, str):
            what = repr(self.condition.key)
        failed = CheckFailed(
            f"{node} at {node.source}: {what} was written {times} and did not pass "
            f"{self.condition}; the last value was {shorten(repr(self.value), 200)}{said}",
            node=str(node),
            source=str(node.source),
            value=self.value,
        )
        failed.__cause__ = self.cause
        return failed


def condition_from(predicate: object, message: object) -> Condition:
    """Raises `UsageError` for what cannot be one."""
    if not callable(predicate) or inspect.iscoroutinefunction(predicate):
        refuse("check", "predicate", predicate, "a plain function of the value")
    if message is not None and not isinstance(message, str):
        refuse("check", "message", message, "what the predicate asks for, as a str")
    return Condition(predicate, message)


def retries_from(retries: object) -> int:
    """Raises `UsageError` for what is no number of retries."""
    whole = isinstance(retries, int) and not isinstance(retries, bool)
    if not whole or not 0 <= retries <= MAX_RETRIES:  # type: ignore[operator]
        refuse("check", "retries", retries, f"a whole number from 0 to {MAX_RETRIES}")
    return int(retries)  # type: ignore[call-overload, no-any-return]


def first_refusal(
    conditions: Iterable[Condition], read: Callable[[str | int], Any]
) -> Refusal | None:
    """Why not all of the conditions hold; None when they do. `read` gives a variable unread."""
    for condition in conditions:
        if (refusal := condition.refusal(read(condition.key))) is not None:
            return refusal
    return None
