"""How a batch ends early: the exceptions that carry its rows, so that nothing finished is lost.

Owns these two. What one row can raise is in `errors`, which no state is needed for.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgdsl.errors import ProgramError
from sgdsl.state import ProgramState


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
    """Ctrl-C in the middle of a batch. `states` as in `BatchFailed`.

    `num_finished`: how many of them are, from who knows it. Their outcomes would tell as well, but
    a look at them parses the values that nobody has read: not while somebody wants to leave.
    """

    def __init__(self, states: Sequence[ProgramState], *, num_finished: int | None = None) -> None:
        if num_finished is None:
            outcomes = [state.outcome for state in states]
            num_finished = sum(each is not None and each.status != "cancelled" for each in outcomes)
        super().__init__(
            f"interrupted with {num_finished} of {len(states)} rows finished; "
            "they are in this exception's `states`"
        )
        self.states = list(states)
