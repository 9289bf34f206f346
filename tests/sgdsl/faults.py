"""A backend that does everything wrong, and programs that meet it.

Owns which faults there are, where one strikes, and what may have come of it.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

import sgdsl as sgl
from sgdsl import AsyncProgramState, Completion, MockBackend, ProgramState, gen, select
from sgdsl.backends.mock import _Drive
from sgdsl.choices import ChoiceScores
from sgdsl.machine import Choose, Generate
from sgdsl.run import Run
from tests.patience import PATIENCE_S
from tests.sgdsl.naive import CHOICES, TEMPLATE, Step, reply

GEN_FAULTS = ("fail", "exit", "stall", "die", "no text", "none", "invalid", "twice", "late")
SELECT_FAULTS = ("fail", "exit", "stall", "die", "nan", "empty", "too few", "twice")
RUN_FAULTS = ("submit raises", "submit exits", "wake raises", "submit does nothing")
CAUSES: Mapping[str, type[BaseException] | tuple[type[BaseException], ...]] = {
    "fail": OSError,
    "exit": SystemExit,
    "die": sgl.BackendError,
    "no text": sgl.BackendError,
    "none": (sgl.BackendError, AttributeError),
    "invalid": ValidationError,
    "nan": sgl.BackendError,
    "empty": sgl.BackendError,
    "too few": (sgl.BackendError, IndexError),
    "submit raises": sgl.BackendError,
    "submit exits": sgl.BackendError,
    "wake raises": sgl.BackendError,
}
ENDLESS = {"stall", "late", "submit does nothing"}
HARMLESS = {"twice"}


class FaultyBackend(MockBackend):
    """Answers as `naive.reply` does, but for the `faults`: what goes wrong at the n-th gen or
    select that it is asked for. `of_runs`: what goes wrong with the n-th run.
    """

    def __init__(
        self, faults: Mapping[int, str], of_runs: Mapping[int, str], *, stepwise: bool
    ) -> None:
        super().__init__(reply, chat_template=TEMPLATE, stepwise=stepwise, max_in_flight=4)
        drawn = {*faults.values(), *of_runs.values()}
        self.may_stall = bool(drawn & ENDLESS)
        self.limit_s = 0.1 if self.may_stall else PATIENCE_S
        """What a run is given: where nothing stalls, nothing may need it."""
        self._faults = faults
        self._of_runs = of_runs
        self._num_asked = self._num_runs = 0
        self._counting = threading.Lock()
        self._double: set[tuple[int, int]] = set()
        self.late: list[tuple[Run, int]] = []
        self.struck: dict[int, list[str]] = {}
        """By run id."""
        self.died = False

    def submit(self, run: Run) -> None:
        with self._counting:
            fault = self._of_runs.get(self._num_runs)
            self._num_runs += 1
        if fault is not None:
            self.struck.setdefault(run.id, []).append(fault)
        if fault == "submit raises":
            raise OSError("no route")
        if fault == "submit exits":
            raise SystemExit(2)
        if fault == "submit does nothing":
            return
        super().submit(run)

    def wake(self, run: Run) -> None:
        if "wake raises" in self.struck.get(run.id, ()):
            raise OSError("no route")
        super().wake(run)

    def answer_late(self) -> None:
        for run, branch_id in self.late:
            run.complete(branch_id, Completion("late"))

    def _strike(self, run: Run, known: Sequence[str], *, typed: bool = True) -> str:
        with self._counting:
            fault = self._faults.get(self._num_asked, "")
            self._num_asked += 1
        if fault not in known or (fault == "invalid" and not typed):
            return ""
        self.struck.setdefault(run.id, []).append(fault)
        if fault == "fail":
            raise OSError("down")
        if fault == "exit":
            raise SystemExit(3)
        if fault == "die":
            self.died = True
            self.die("pulled the plug")
        return fault

    def _generate(self, drive: _Drive, branch_id: int, action: Generate) -> None:
        fault = self._strike(drive.run, GEN_FAULTS, typed=action.node.typed)
        if fault in {"stall", "late", "die"}:
            drive.live.remove(branch_id)
            if fault == "late":
                self.late.append((drive.run, branch_id))
            return
        answers: dict[str, Any] = {
            "no text": Completion(text=5),  # type: ignore[arg-type]
            "none": None,
            "invalid": Completion("no value of this type"),
        }
        if fault in answers:
            drive.live.remove(branch_id)
            drive.writing[branch_id] = (answers[fault], 0)
            return
        super()._generate(drive, branch_id, action)
        if fault == "twice" and branch_id in drive.writing:
            self._double.add((drive.run.id, branch_id))
        elif fault == "twice":  # it has been answered at once
            self._again(drive.run, lambda: drive.run.complete(branch_id, Completion("again")))

    def _write(self, drive: _Drive, branch_id: int) -> bool:
        completion: Any = drive.writing[branch_id][0]
        if not isinstance(getattr(completion, "text", None), str):
            drive.run.complete(branch_id, completion)
        moved = super()._write(drive, branch_id)
        if branch_id not in drive.writing and (drive.run.id, branch_id) in self._double:
            self._again(drive.run, lambda: drive.run.complete(branch_id, Completion("again")))
        return moved

    def _choose(self, drive: _Drive, branch_id: int, action: Choose) -> None:
        fault = self._strike(drive.run, SELECT_FAULTS)
        if fault in {"stall", "die"}:
            drive.live.remove(branch_id)
            return
        nonsense: dict[str, list[list[float]]] = {
            "nan": [[math.nan], [-1.0]],
            "empty": [[], []],
            "too few": [],
        }
        if fault in nonsense:
            drive.run.choose(branch_id, ChoiceScores(nonsense[fault]), draw=0.0, meta={})
        super()._choose(drive, branch_id, action)
        if fault == "twice":
            again = ChoiceScores([[-9.0], [-1.0]])
            self._again(drive.run, lambda: drive.run.choose(branch_id, again, draw=0.0, meta={}))

    @staticmethod
    def _again(run: Run, answer: Any) -> None:
        try:
            answer()
        except sgl.BackendError:
            return  # as a backend that does not listen
        assert run.outcome is not None, "nothing was asked that is answered now"


# The programs: those of `naive`, with typed gens, and joins that collect if they are told to.


def _gen(name: str) -> Any:
    return gen(name or None, type=list[int]) if name == "c" else gen(name or None)


def write(s: ProgramState | AsyncProgramState, step: Step) -> bool:
    """A step that reads nothing and holds no others; False if it is none."""
    match step.kind:
        case "text":
            s.append(step.text)
        case "gen":
            s.append(_gen(step.name))
        case "select":
            s.append(select(step.name, CHOICES))
        case "ref":
            if step.name in s:
                s.append(s.ref(step.name))
        case "assign":
            s[step.name] = len(step.name)
        case _:
            return False
    return True


def perform(s: ProgramState, steps: Sequence[Step], on_error: Any) -> None:
    for step in steps:
        if write(s, step):
            continue
        match step.kind:
            case "read":
                if step.name in s:
                    s[step.name]
            case "read_text":
                s.text()
            case "read_messages":
                s.messages()
            case "scope":
                with s.var_scope(step.name):
                    perform(s, step.bodies[0], on_error)
            case "role":
                with getattr(s, step.name)():
                    perform(s, step.bodies[0], on_error)
            case "fork":
                forks = s.fork(len(step.bodies))
                for fork, body in zip(forks, step.bodies, strict=True):
                    perform(fork, body, on_error)
                if step.name:
                    forks.join(step.name, on_error=on_error)


async def perform_async(s: AsyncProgramState, steps: Sequence[Step], on_error: Any) -> None:
    for step in steps:
        if write(s, step):
            continue
        match step.kind:
            case "read":
                if step.name in s:
                    await s.get(step.name)
            case "read_text":
                await s.text()
            case "read_messages":
                await s.messages()
            case "scope":
                with s.var_scope(step.name):
                    await perform_async(s, step.bodies[0], on_error)
            case "role":
                with getattr(s, step.name)():
                    await perform_async(s, step.bodies[0], on_error)
            case "fork":
                forks = s.fork(len(step.bodies))
                await asyncio.gather(
                    *(
                        perform_async(fork, body, on_error)
                        for fork, body in zip(forks, step.bodies, strict=True)
                    )
                )
                if step.name:
                    forks.join(step.name, on_error=on_error)


def judge(state: Any, run: Run, backend: FaultyBackend, *, collects: bool) -> None:
    """Whether the outcome can be the truth, after what the backend has done."""
    outcome = state.outcome
    assert outcome is not None, "every run ends"
    struck = [fault for fault in backend.struck.get(run.id, []) if fault not in HARMLESS]
    if backend.died:
        struck.append("die")
    match outcome.status:
        case "ok":
            assert collects or not [each for each in struck if each != "die"], struck
        case "failed":
            causes = tuple(CAUSES[each] for each in struck if each in CAUSES)
            flat = tuple(
                kind for each in causes for kind in (each if isinstance(each, tuple) else (each,))
            )
            assert isinstance(outcome.error, sgl.ProgramError)
            assert isinstance(outcome.error.__cause__, flat), (outcome, struck)
        case "cancelled":
            assert isinstance(outcome.error, sgl.CancelledError)
            late = isinstance(outcome.error, sgl.DeadlineError)
            assert backend.may_stall if late else "its batch ended" in str(outcome.error)
        case _:
            raise AssertionError(f"nothing is cut off here, but it is {outcome}")
