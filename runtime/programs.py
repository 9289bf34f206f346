"""The programs: runs' graphs, carried out on sequences.

Owns the runs: when they come, change, end and are dropped, and when which of their lines is driven.
It asks each run's machine what to do and has it done: how a line begins to generate or to score is
said elsewhere, and so is what a step's tokens mean. Knows no tensor and no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence as List
from contextlib import suppress

from grammars import Constraint, Grammar
from runtime.activities import Activities
from runtime.arrivals import Arrivals
from runtime.aside import Beside
from runtime.batch import Batch, Grant
from runtime.errors import OverloadedError
from runtime.grammar_store import GrammarStore, Prepared
from runtime.line import Line
from runtime.roster import Roster
from runtime.sampling.request import Sampled, SampleRequest
from runtime.scheduler import Scheduler
from runtime.scoring import Scoring, Splitting
from runtime.sharing import SharedOutputs
from runtime.speculation import Speculation
from runtime.tokenizer import Tokenizer
from sgdsl.machine import Adopt, Append, Choose, Generate, Idle, Replay, Rewind, Spawn
from sgdsl.run import Run


class Programs:
    """`max_tokens` of a sequence: by the context and by the pool. `clock` gives seconds, for the
    latencies in `meta_info` only.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        tokenizer: Tokenizer,
        grammars: GrammarStore,
        *,
        max_tokens: int,
        clock: Callable[[], float],
        speculation: Speculation,
        share_outputs: bool = True,
        max_waiting: int | None = None,
        max_waiting_tokens: int | None = None,
    ) -> None:
        self.shared = SharedOutputs(enabled=share_outputs)
        self.roster = Roster(scheduler, self.shared)
        self.speculation = speculation
        self.tokenizer = tokenizer
        self._scheduler = scheduler
        self._max_waiting = max_waiting
        self._max_waiting_tokens = max_waiting_tokens
        self._arrivals = Arrivals(self.roster, tokenizer, speculation, clock)
        self._activities = Activities(
            self.roster,
            self._arrivals,
            tokenizer,
            grammars,
            max_tokens=max_tokens,
            clock=clock,
            resume=self._resume,
        )
        self._runs: dict[int, Run] = {}
        self._prepared: dict[int, dict[Constraint, Grammar | Exception]] = {}  # by run id

    @property
    def num_runs(self) -> int:
        return len(self._runs)

    @property
    def num_completion_tokens(self) -> int:
        return self._arrivals.num_completion_tokens

    def work_beside(self, beside: Beside) -> None:
        """Where to do what would hold up the steps."""
        self._activities.beside = beside

    # Runs come, change and go.

    def start(self, run: Run, prepared: Prepared) -> None:
        """Take a run on; drive it as far as it goes without the model. One too many fails: what is
        under way goes on, whatever it has to wait for.
        """
        if (overload := self._overload()) is not None:
            run.fail(overload)
            return
        self._runs[run.id] = run
        self._prepared[run.id] = {}
        self.roster.enter(run)
        self.wake(run, prepared)

    def _overload(self) -> OverloadedError | None:
        scheduler = self._scheduler
        for name, limit, waiting, unit in (
            ("max_waiting", self._max_waiting, scheduler.num_waiting, "sequences"),
            (
                "max_waiting_tokens",
                self._max_waiting_tokens,
                scheduler.num_waiting_tokens,
                "tokens",
            ),
        ):
            if limit is not None and waiting >= limit:
                return OverloadedError(
                    f"{waiting} {unit} wait already, and {name}={limit}; submit this run later, "
                    "fewer at once, or raise the limit"
                )
        return None

    def wake(self, run: Run, prepared: Prepared) -> None:
        """The run has new nodes, or was closed or cancelled. `prepared`: their constraints."""
        if run.id not in self._runs:
            return
        self._prepared[run.id].update(prepared)
        if run.cancelled:
            self._drop(run)
            run.finish_cancelled("the run was cancelled")
            return
        self._advance(run, [line for line in self.roster.lines[run.id].values() if not line.busy])

    def _resume(self, line: Line, splitting: Splitting, made: Callable[[], Scoring]) -> None:
        """The options of the line's select are tokenised, if it still waits for that."""
        run = line.run
        if run.id not in self._runs or line.activity is not splitting:
            return
        line.activity = None
        self.roster.guard(line, lambda: self._activities.begin_scoring(line, made()))
        if line.failed or run.outcome is not None:
            self._advance(run, [line])

    def fail_all(self, cause: BaseException) -> None:
        """The engine does not go on, whatever state it is in: every run ends with the cause."""
        for run in list(self._runs.values()):
            with suppress(BaseException):  # of whoever watches this run; the others come first
                run.fail(cause)
        self._runs.clear()
        self._prepared.clear()
        with suppress(BaseException):
            self._scheduler.pins.clear()

    def unpin(self, run: Run) -> None:
        """What was computed for the run may be evicted again."""
        self._scheduler.pins.release(run.id)

    def _drop(self, run: Run) -> None:
        """The run is over: nothing of it stays."""
        del self._runs[run.id]
        del self._prepared[run.id]
        self.roster.drop(run)
        if run.pins and (run.outcome is None or run.outcome.error is not None):
            self.unpin(run)

    # A step of the engine.

    def draft(self, grants: List[Grant]) -> dict[int, tuple[int, ...]]:
        """What is to be tried behind the tokens of those grants that draw, by sequence id."""
        return self._arrivals.draft(grants)

    def request(self, batch: Batch) -> SampleRequest:
        """What the rows that draw a token ask for."""
        return self._arrivals.request(batch)

    def foretell(self, batch: Batch) -> None:
        """What the batch draws is not known yet; rows that go on behind it can be computed."""
        self._arrivals.foretell(batch)

    def verify(self, batch: Batch, sampled: Sampled) -> int:
        """What of the drafts was drawn, too, is known from now on; the rest was never there.
        Returns how many tokens that are.
        """
        return self._arrivals.verify(batch, sampled)

    def commit(self, batch: Batch, sampled: Sampled) -> None:
        """The step's tokens and scores arrive; every line that got one goes on."""
        moved: dict[int, list[Line]] = {}
        for line in self._arrivals.take(batch, sampled):
            moved.setdefault(line.run.id, []).append(line)
        for run_id, lines in moved.items():
            self._advance(self._runs[run_id], lines)

    # Lines are driven.

    def _advance(self, run: Run, lines: Iterable[Line]) -> None:
        """Drive these lines, and all that can go on because they went on."""
        due = deque(lines)
        while due and run.outcome is None:
            line = due.popleft()
            if line.failed:
                self.roster.give_up(line)
            if line.busy or self.roster.lines[run.id].get(line.branch_id) is not line:
                continue  # it was due twice, and went on the first time
            try:
                self._drive(line, due)
            except BaseException as cause:  # noqa: BLE001 - whatever it is, it is this row's alone
                self.roster.fail(line, cause)
            if line.failed:
                due.append(line)
        if run.outcome is None and run.settled:
            run.finish()
        if run.outcome is not None:
            self._drop(run)

    def _drive(self, line: Line, due: deque[Line]) -> None:
        """Do what the machine says until the line needs the model, a value, or nothing any more."""
        lines = self.roster.lines[line.run.id]
        while line.run.outcome is None:
            match line.run.next(line.branch_id):
                case Append() as action:
                    self._append(line, action)
                case Generate() as action:
                    self._activities.generate(line, action, self._prepared[line.run.id])
                    if line.busy:
                        return
                case Choose() as action:
                    self._activities.score(line, action)
                    return
                case Spawn(children=children):
                    line.set_mark()
                    for child_id in children:
                        lines[child_id] = line.fork(child_id)
                        due.append(lines[child_id])
                case Idle() as idle:
                    self.roster.leave(line)
                    line.joining = idle is Idle.JOINING
                    parent = lines.get(line.parent_id)
                    if not line.joining and parent is not None and parent.joining:
                        parent.joining = False  # it may be waiting for this, and is asked once
                        due.append(parent)
                    if idle is Idle.FINISHED:
                        del lines[line.branch_id]
                    return

    def _append(self, line: Line, action: Append) -> None:
        """Text that needs no model, wherever it comes from."""
        match action:
            case Adopt(child=child):
                line.adopt(self.roster.lines[line.run.id][child])
            case Rewind():
                line.rewind()
            case Replay():
                line.replay(action, self.tokenizer)
            case Append(pieces=pieces):
                line.pending += pieces
