"""What a batch keeps of its rows and threads while they are under way.

Owns the records, and which limits a batch has. The batch alone changes them, under its lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sgdsl.errors import CancelledError
from sgdsl.execution import Execution
from sgdsl.run import Run
from sgdsl.state import ProgramState
from sgdsl.timer import Alarm

OnError = Literal["collect", "raise"]

AUTO_THREADS = 256
"""Threads of a batch at most, when the caller does not say. One that waits costs some 50 KB."""

MAX_LEFT = 4
"""Times its threads: so many bodies of a batch may be stuck before it gives up on its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`ahead`: rows started but not yet taken by the caller; None keeps all results.
    `sized`: the rows are known to end. `timeout_s` is for the batch from its start,
    `row_timeout_s` for each row from its own.
    """

    in_flight: int
    threads: int
    ahead: int | None = None
    sized: bool = True
    timeout_s: float | None = None
    row_timeout_s: float | None = None


@dataclass(slots=True, eq=False)
class Worker:
    """A thread that runs bodies. `left`: its row has ended without its body, and the batch goes on
    without it.
    """

    waiting: bool = False
    left: bool = False


@dataclass(slots=True, eq=False)
class Flight:
    """A row under way. The body and the run end separately, in either order. `alarm`: until when a
    body is waited for whose run has failed.
    """

    index: int
    execution: Execution
    worker: Worker
    in_body: bool = True
    in_run: bool = True
    alarm: Alarm | None = None

    @property
    def landed(self) -> bool:
        return not self.in_run and (not self.in_body or self.worker.left)


class Ended(NamedTuple):
    """A row as the caller will get it."""

    state: ProgramState[Any]
    run: Run

    @classmethod
    def never_started(cls, execution: Execution, reason: CancelledError) -> Ended:
        execution.run.end(reason)
        return cls(execution.state, execution.run)
