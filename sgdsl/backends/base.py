"""The protocol between the frontend and whatever executes graphs.

Owns the `Backend` protocol, its statistics, and how one is closed. A backend is given runs, drives
each run's machine from a thread of its own, and never calls back into user code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, Self

from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.run import Run


@dataclass(frozen=True, slots=True)
class BackendStats:
    """Totals since the backend started; counts are tokens. Differences of two make a rate."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: BackendStats) -> BackendStats:
        return BackendStats(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )


class Backend(Protocol):
    """Neither method blocks on the model or raises for a run's sake: a fault is the run's outcome.

    A backend that is closed or dead fails the run with `BackendError` instead of letting it wait.

    `run.fail(cause, branch_id=...)` need not end the run: a join may collect the failure of a fork.
    It answers the node, as `complete` does; a run without an outcome goes on, and the branch is
    asked for its `next` action again. The program's side may set the outcome at any time (a
    deadline, `cancel()`): what a backend says after that is dropped.

    A backend that sets `caches_prefixes = True` is asked to compute prefixes by `Program.cache`;
    of one that hands runs on to others, those named in its `prefix_backends` are. One that has a
    method `unpin(run)` keeps what it computes for a run that `pins`, until that call. One that goes
    on from the tokens of another says by its `tokenizer_id` which ones.
    """

    @property
    def chat_template(self) -> ChatTemplate: ...

    @property
    def max_in_flight(self) -> int:
        """How many runs it pays to have submitted at once; more only cost memory."""
        ...

    def submit(self, run: Run) -> None:
        """Take the run on: from now on this backend alone drives it, until its outcome is set."""
        ...

    def wake(self, run: Run) -> None:
        """The run has more nodes, was closed or cancelled. One that has an outcome is dropped."""
        ...

    def stats(self) -> BackendStats: ...


def closed(label: str) -> BackendError:
    """Why a backend takes no run any more."""
    return BackendError(
        f"{label} was closed before this run could finish, or made before this process was forked: "
        "its threads are where it was made"
    )


class Closing(ABC):
    """A backend that a `with` block closes."""

    @abstractmethod
    def close(self) -> None:
        """Runs under way end as failed; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
