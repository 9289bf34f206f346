"""A run that is driven by what happens to its replica.

Owns the original's machine, as its driver: it goes as far as the answers that have come. Knows
nothing of where the replica is.
"""

from __future__ import annotations

from sgdsl.backends.replica import Chosen
from sgdsl.errors import BackendError
from sgdsl.graph import ROOT
from sgdsl.machine import Choose, Completion, Generate, Idle, Spawn, Spelling
from sgdsl.run import Run


class Follower:
    """Not thread-safe: whoever has it calls it from one thread at a time."""

    __slots__ = ("_live", "asked", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._live: dict[int, None] = {ROOT: None}
        self.asked: dict[int, Generate | Choose] = {}
        """What waits for its answer, by branch."""

    def advance(self) -> None:
        """Go on with every branch until it waits for an answer, the program, or its children. What
        goes wrong is the run's outcome, at the node where it did.
        """
        moved = True
        while moved and self.run.outcome is None:
            moved = False
            for branch_id in list(self._live):
                try:
                    moved |= self._step(branch_id)
                except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
                    self.run.fail(error, branch_id=branch_id)
                    moved = True

    def _step(self, branch_id: int) -> bool:
        moved = False
        while True:
            match self.run.next(branch_id):
                case Spawn(children=children):
                    self._live.update(dict.fromkeys(children))
                case (Generate() | Choose()) as action:
                    del self._live[branch_id]
                    self.asked[branch_id] = action
                    return True
                case Idle() as idle:
                    if idle is Idle.FINISHED:
                        del self._live[branch_id]
                    return moved
            moved = True

    def streamed(self, branch_id: int, text: str, spelling: Spelling | None) -> None:
        if branch_id in self.asked and self.run.streaming:
            self.run.stream(branch_id, text, spelling)

    def answered(self, branch_id: int, answer: Completion | Chosen) -> None:
        """An answer to what was asked on the branch, and on from there."""
        self._take(branch_id, answer)
        self.advance()

    def _take(self, branch_id: int, answer: Completion | Chosen) -> None:
        if branch_id not in self.asked:
            self.advance()
        action = self.asked.get(branch_id)
        fits = Generate if isinstance(answer, Completion) else Choose
        if not isinstance(action, fits):
            self.run.fail(
                BackendError(f"an answer came for branch {branch_id}, which had not asked for it")
            )
            return
        try:
            if isinstance(answer, Chosen):
                self.run.choose(branch_id, answer.scores, draw=answer.draw, meta=answer.meta)
            else:
                self.run.complete(branch_id, answer)
        except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
            self.run.fail(error, branch_id=branch_id)
        self._go_on(branch_id)

    def failed(self, cause: BaseException, branch_id: int | None) -> None:
        """The replica failed there, and so does the original."""
        self.run.fail(cause, branch_id=branch_id)
        if branch_id is not None:
            self._go_on(branch_id)  # a graph may go on without the branch
            self.advance()

    def _go_on(self, branch_id: int) -> None:
        self.asked.pop(branch_id, None)
        self._live[branch_id] = None
