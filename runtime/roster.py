"""The roster: the lines of all runs, and which sequence is computed for which of them.

Owns the lines (one per branch of each run), and the ways in which one comes to be computed, stops
being computed and fails. It must not know what a machine asks for, nor what a token means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence as List
from contextlib import suppress

from grammars import CompileBudgetError
from runtime.foresight import foresee
from runtime.generation import Generation
from runtime.line import Line
from runtime.scheduler import Scheduler
from runtime.sequence import Sequence
from runtime.sharing import SharedOutputs
from sgdsl.graph import ROOT
from sgdsl.run import Run


class Roster:
    """`lines` of each run by its id, by branch id."""

    def __init__(self, scheduler: Scheduler, shared: SharedOutputs) -> None:
        self.lines: dict[int, dict[int, Line]] = {}
        self.scheduler = scheduler
        self.shared = shared
        self._owners: dict[int, Line] = {}  # by sequence id

    # Runs come and go.

    def enter(self, run: Run) -> None:
        self.lines[run.id] = {ROOT: Line(ROOT, run)}

    def drop(self, run: Run) -> None:
        """The run is over: nothing of it stays. Of its lines none takes the place of another."""
        lines = self.lines.pop(run.id).values()
        for line in lines:
            _tell_partial(line)
            self._stop(line)
        for heir in [self.shared.leave(line) for line in lines]:
            if heir is not None and heir.run is not run:
                self.draw(heir)

    def longest_beside(self, run: Run) -> int:
        """Tokens that the longest sequence of other runs may come to, as far as is known."""
        others = (lines.values() for run_id, lines in self.lines.items() if run_id != run.id)
        sequences = (each for lines in others for line in lines for each in line.sequences)
        return max((max(each.ahead.end, each.max_slots) for each in sequences), default=0)

    # Lines are computed, and stop being.

    def owner(self, sequence: Sequence) -> Line:
        """The line that the sequence is computed for."""
        return self._owners[sequence.id]

    def is_computed(self, sequence: Sequence) -> bool:
        return sequence.id in self._owners

    def compute(self, line: Line, sequences: List[Sequence]) -> None:
        new = [sequence for sequence in sequences if sequence.id not in self._owners]
        work = self._work(line.run) if new and self.scheduler.policy.by_work else 0
        for sequence in new:
            self._owners[sequence.id] = line
            sequence.group, sequence.priority = line.run.id, line.run.priority
            sequence.salt = line.run.cache_salt or ""
            sequence.work = work + sequence.num_known
            self.scheduler.add(sequence)

    def draw(self, line: Line) -> None:
        """The line's next token is to be drawn."""
        line.sequence.want_sample()
        self.compute(line, [line.sequence])

    def release(self, sequence: Sequence) -> None:
        """The sequence holds no pages any more: the tree keeps what was computed."""
        if self._owners.pop(sequence.id, None) is not None:
            self.scheduler.remove(sequence)

    def leave(self, line: Line) -> None:
        """The line waits or is done."""
        self.release(line.sequence)
        line.sequence.wants_sample = False

    def unshare(self, line: Line) -> None:
        """The line takes no more tokens of its equals, and gives them none."""
        if (heir := self.shared.leave(line)) is not None:
            self.draw(heir)

    def _stop(self, line: Line) -> None:
        for sequence in line.sequences:
            self.release(sequence)

    def _work(self, run: Run) -> int:
        """Tokens that the run may still write or draw, as far as its graph is known."""
        drawing = sum(line.num_undrawn for line in self.lines[run.id].values())
        return drawing + sum(foresee(run.nodes_ahead(), run.defaults))

    # Lines fail.

    def guard(self, line: Line, call: Callable[[], object]) -> bool:
        """Call what may raise for reasons of this row alone: then its run fails. True if fine."""
        try:
            call()
        except BaseException as cause:  # noqa: BLE001 - users' code may raise anything, SystemExit too
            self.fail(line, cause)
            return False
        return True

    def fail(self, line: Line, cause: BaseException) -> None:
        """`cause` is the end of the run, or of this line alone, if a join may collect it."""
        _tell_partial(line)
        line.run.fail(cause, branch_id=line.branch_id)
        line.failed = True
        self.unshare(line)

    def give_up(self, line: Line) -> None:
        """Drop what a line that has failed was doing."""
        self._stop(line)
        line.activity = None
        line.failed = False


def _tell_partial(line: Line) -> None:
    """What it has written, for who asks what a run came to that ends early. Nobody goes on with it,
    so that only the run is told, not those who watch one that stands for another.
    """
    if isinstance(line.activity, Generation):
        with suppress(CompileBudgetError):  # a stop pattern that costs too much hides what is shown
            Run.stream(line.run, line.branch_id, line.activity.text)
