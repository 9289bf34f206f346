"""A backend with scripted answers: for testing programs without a model.

Owns the reference driver: what every backend does with a run, in its shortest form (`_step`).
Counts words instead of tokens. A constraint is checked, never enforced: a scripted reply that
violates it fails its node.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from grammars import Constraint
from sgdsl.backends.base import BackendStats, closed
from sgdsl.backends.script import Replies, Reply, Request, Scores, Script, Stall
from sgdsl.backends.validation import violation
from sgdsl.chat import PLAIN, ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.graph import ROOT
from sgdsl.machine import Append, Choose, Completion, Generate, Idle, Spawn
from sgdsl.run import Run

NOTHING = Completion("", {"finish_reason": {"type": "length", "length": 0}})
"""Of a gen that draws nothing."""


class _Drive:
    """One run as its driver sees it."""

    __slots__ = ("begin_s", "due_s", "live", "run", "writing")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.live = [ROOT]
        """The branches to ask for their next action: neither finished nor busy."""
        self.writing: dict[int, tuple[Completion, int]] = {}
        """What a running gen will have written in the end, and how much of it is."""
        self.due_s: dict[int, float] = {}
        """When a gen that takes a while begins to write."""
        self.begin_s = time.monotonic()


class MockBackend:
    """`replies` scripts the gens: by variable name, each with one reply, a list of replies that are
    used up in order, or a function of the `Request`; or one function for all. `default` answers the
    rest; without one it is "mock", or a short text that satisfies the gen's constraint. `scores`
    scripts the selects: by variable name, a log-probability a choice.

    A reply that violates its gen's constraint fails the node, as no engine would write it;
    `check_constraints=False` takes it as it is. JSON may be laid out in any way.

    A reply may be a str, a `Completion` (with meta info), an exception (which fails its node) or
    `STALL` (which never comes). Everything is answered at once, on the thread that submits;
    `stepwise` answers on a thread of its own, with one more word of every running gen a step, and
    `pause()` and `resume()` hold it between two steps. `latency_s`: how long a gen takes (seconds,
    or a function of the `Request`), on a thread of its own.
    """

    def __init__(
        self,
        replies: Mapping[str, Replies] | Callable[[Request], Reply] | None = None,
        *,
        default: str | None = None,
        scores: Mapping[str, Scores] | None = None,
        chat_template: ChatTemplate = PLAIN,
        max_in_flight: int = 256,
        stepwise: bool = False,
        check_constraints: bool = True,
        latency_s: float | Callable[[Request], float] = 0.0,
    ) -> None:
        self._script = Script(replies, scores, default)
        self._template = chat_template
        self._max_in_flight = max_in_flight
        self._drives: dict[int, _Drive] = {}
        self._due: deque[Run] = deque()
        self._driving = threading.Lock()
        self._bell = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._dead: BackendError | None = None
        self._prompt_tokens = self._completion_tokens = 0
        self._stepwise = stepwise
        self._checks = check_constraints
        self._latency_s = latency_s
        self._process_id = os.getpid()
        self._threaded = stepwise or callable(latency_s) or latency_s > 0
        if self._threaded:
            threading.Thread(target=self._serve, name="sgdsl-mock", daemon=True).start()

    @property
    def chat_template(self) -> ChatTemplate:
        return self._template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def submit(self, run: Run) -> None:
        self._drives[run.id] = _Drive(run)
        self.wake(run)

    def wake(self, run: Run) -> None:
        if run.cancelled:
            run.finish_cancelled("cancelled")
        if self._dead is not None:
            run.fail(self._dead)
        if self._threaded:
            if os.getpid() != self._process_id:
                run.fail(closed("the mock"))
            self._bell.set()
            return
        self._due.append(run)
        while self._due and self._driving.acquire(blocking=False):  # or its holder looks at it
            try:
                drive = self._drives.get(self._due.popleft().id)
                while drive is not None and self._step(drive):
                    pass
            finally:
                self._driving.release()

    def stats(self) -> BackendStats:
        return BackendStats(
            prompt_tokens=self._prompt_tokens, completion_tokens=self._completion_tokens
        )

    def flush_cache(self) -> None:
        """There is none."""

    def pause(self) -> None:
        """Take no step until `resume()`."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def die(self, reason: str = "the backend died") -> None:
        """Fail every run, now and from now on."""
        self._dead = BackendError(reason)
        for drive in list(self._drives.values()):
            drive.run.fail(self._dead)
        self._going.set()
        self._bell.set()

    def close(self) -> None:
        """Answer nothing any more; the thread ends."""
        self.die("the backend was closed")

    def _serve(self) -> None:
        while self._dead is None:
            self._bell.wait(self._idle_s())
            self._going.wait()
            self._bell.clear()
            if any([self._step(drive) for drive in list(self._drives.values())]):  # noqa: C419
                self._bell.set()

    def _idle_s(self) -> float | None:
        """Until the next answer is due; None when all of them wait for somebody else."""
        due = [due_s for drive in list(self._drives.values()) for due_s in drive.due_s.values()]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _step(self, drive: _Drive) -> bool:
        """One step of a run. All that a driver has to do:

        * ask each branch for its `next` action until it is idle. An append is done when it is said
          (a model would be fed the pieces); a fork adds branches; a gen and a select are answered,
          at once or later, and a branch is not asked again before that;
        * ask idle branches again in the next step: a child may have finished for which a join
          waits, the program may have written more;
        * turn whatever goes wrong into the run's outcome, at the branch where it did. A fork's
          failure may wait for its join: a run without an outcome goes on, that branch too;
        * `finish` a run that is settled, and drop one that has an outcome, whoever has set it.

        Returns whether anything has moved; a run that stands still is looked at when it is woken.
        """
        run, moved = drive.run, False
        for branch_id in [*drive.live, *drive.writing]:
            if run.outcome is not None:
                break
            try:
                moved |= (
                    self._write(drive, branch_id)
                    if branch_id in drive.writing
                    else self._advance(drive, branch_id)
                )
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and not self._stepwise:
                    raise
                run.fail(error, branch_id=branch_id)
                drive.writing.pop(branch_id, None)
                if branch_id not in drive.live:
                    drive.live.append(branch_id)
                moved = True
        if run.outcome is None and run.settled:
            run.finish()
        if run.outcome is not None:
            self._drives.pop(run.id, None)
            return False
        return moved

    def _advance(self, drive: _Drive, branch_id: int) -> bool:
        run, moved = drive.run, False
        while True:
            match run.next(branch_id):
                case Append(pieces=pieces):
                    self._prompt_tokens += sum(len(piece.text.split()) for piece in pieces)
                case Spawn(children=children):
                    drive.live += children
                case Generate() as action:
                    self._generate(drive, branch_id, action)
                    return True
                case Choose() as action:
                    self._choose(drive, branch_id, action)
                    return True
                case idle:
                    if idle is Idle.FINISHED:
                        drive.live.remove(branch_id)
                    return moved
            moved = True

    def _generate(self, drive: _Drive, branch_id: int, action: Generate) -> None:
        run, node = drive.run, action.node
        branch = run.peek(branch_id)
        assert branch is not None, "an active branch exists"
        prompt = branch.text()
        seed = run.seed if action.sampling.seed is None else action.sampling.seed
        request = Request(node.name, prompt, action.sampling, node.constraint, seed)
        draws = action.sampling.max_tokens != 0
        reply: Completion | Stall = self._script.reply(request) if draws else NOTHING
        drive.live.remove(branch_id)
        if isinstance(reply, Stall):
            return
        if self._checks and draws and node.constraint is not None:
            self._check(reply, node.constraint)
        words = len(reply.text.split())
        meta = {
            "id": f"mock-{run.id}-{node.id}",
            "prompt_tokens": len(prompt.split()),
            "completion_tokens": words,
            "cached_tokens": 0,
            "finish_reason": {"type": "length" if reply.truncated else "stop", "matched": None},
            "e2e_latency": time.monotonic() - drive.begin_s,
        }
        if reply.meta:
            meta |= reply.meta
        self._completion_tokens += words
        completion = Completion(reply.text, meta, reply.truncated)
        latency_s = self._latency_s(request) if callable(self._latency_s) else self._latency_s
        if latency_s > 0:
            drive.due_s[branch_id] = time.monotonic() + latency_s
        elif not self._stepwise:
            run.complete(branch_id, completion)
            drive.live.append(branch_id)
            return
        drive.writing[branch_id] = (completion, 0)

    @staticmethod
    def _check(reply: Completion, constraint: Constraint) -> None:
        reason = violation(constraint, reply.text)
        if reason is None and reply.truncated:
            reason = "a constrained gen is never truncated, and this reply says that it is"
        if reason is not None:
            raise BackendError(
                f"{reason}; script a reply that does, or make the MockBackend with "
                "check_constraints=False"
            )

    def _write(self, drive: _Drive, branch_id: int) -> bool:
        """One more word, or all at once; the answer when there is no more."""
        if drive.due_s.get(branch_id, 0.0) > time.monotonic():
            return False
        drive.due_s.pop(branch_id, None)
        completion, written = drive.writing[branch_id]
        more = completion.text.find(" ", written + 1) if self._stepwise else -1
        if more >= 0:
            drive.writing[branch_id] = (completion, more)
            if drive.run.streaming:
                drive.run.stream(branch_id, completion.text[:more])
            return True
        drive.run.complete(branch_id, completion)
        del drive.writing[branch_id]
        drive.live.append(branch_id)
        return True

    def _choose(self, drive: _Drive, branch_id: int, action: Choose) -> None:
        node, run = action.node, drive.run
        scores = self._script.scores(node)
        if isinstance(scores, Stall):
            drive.live.remove(branch_id)
            return
        draw = random.Random(f"{run.seed} {node.id}").random()
        run.choose(branch_id, scores, draw=draw, meta={"id": f"mock-{run.id}-{node.id}"})
