"""The error families of the frontend: whose fault it is, and where in the user's program.

Owns the exception types. Knows nothing of graphs, backends or engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgdsl.state import ProgramState


class SgdslError(Exception):
    """Base of every error that sgdsl raises on purpose."""


class UsageError(SgdslError, ValueError):
    """The caller's fault: says what was given, what is allowed and what to do."""


class TraceError(UsageError):
    """A traced body needed a concrete value; a trace has only names."""


class BackendError(SgdslError, RuntimeError):
    """The backend's fault: it died, was closed, or answered nonsense."""


class CancelledError(SgdslError):
    """The run was cancelled before it could finish."""


class ProgramError(SgdslError, RuntimeError):
    """A node of a program failed.

    `__cause__` is the original error; `node` the printed node, `source` the user's line
    as `file:line`; both are None when the failure belongs to no single node.
    """

    def __init__(self, message: str, *, node: str | None = None, source: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.source = source


class BatchFailed(ProgramError):  # noqa: N818 - beside BatchInterrupted
    """The first failed row of a batch that ran with `on_error="raise"`; `__cause__` is its error.

    `states` are the rows in input order (with `generator_style`, those not yet yielded): what had
    finished is kept, the rest was cancelled. `row` is the failed row's index in the input.
    """

    def __init__(self, error: BaseException, *, row: int, states: Sequence[ProgramState]) -> None:
        super().__init__(
            f"row {row}: {error}",
            node=getattr(error, "node", None),
            source=getattr(error, "source", None),
        )
        self.row = row
        self.states = list(states)


class BatchInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a batch. `states` as in `BatchFailed`."""

    def __init__(self, states: Sequence[ProgramState]) -> None:
        finished = sum(
            state.outcome is not None and state.outcome.status != "cancelled" for state in states
        )
        super().__init__(
            f"interrupted with {finished} of {len(states)} rows finished; "
            "they are in this exception's `states`"
        )
        self.states = list(states)
