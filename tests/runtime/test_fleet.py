"""Equal backends as one: who shares a beginning stays together, nobody is idle, nothing is lost."""

from __future__ import annotations

import random
import threading
from collections import Counter
from time import monotonic, sleep
from typing import Any

import pytest

import sgdsl as sgl
from runtime.fleet import beginning
from sgdsl import Fleet, MockBackend, ProgramState
from sgdsl.backends.lanes import Lane
from sgdsl.backends.policy import Backoff
from sgdsl.backends.script import Request
from tests.patience import PATIENCE_S

FAST = Backoff(base_s=0.001, max_s=0.002)


@sgl.function
def answer(s: ProgramState, beginning: str, q: str) -> None:
    with s.user():
        s += beginning + q
    s += sgl.gen("a")


class Twins:
    """`number` mocks that keep who was asked what; they answer when `gate` is open."""

    def __init__(self, number: int) -> None:
        self.asked: list[list[str]] = [[] for _ in range(number)]
        self.broken: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.backends = [MockBackend(self._script(index)) for index in range(number)]

    def _script(self, index: int) -> Any:
        def script(request: Request) -> Any:
            assert self.gate.wait(PATIENCE_S)
            self.asked[index].append(request.prompt)
            if index in self.broken:
                return sgl.BackendError("out of order")
            return f"{len(request.prompt)}"

        return script

    def where(self, text: str) -> Counter[int]:
        """How often each was asked something with this text in it."""
        return Counter(
            {i: n for i, all_ in enumerate(self.asked) if (n := sum(text in p for p in all_))}
        )


def outcome(state: ProgramState) -> str:
    assert state.outcome is not None
    return state.outcome.status


def beginning_of(group: int) -> str:
    """Longer than some blocks; different from the first character on."""
    return f"{group} is the group. " * 40


def test_who_shares_a_beginning_goes_to_one_backend() -> None:
    twins = Twins(4)
    rows = [(group, q) for group in range(8) for q in range(6)]
    random.Random(0).shuffle(rows)
    with Fleet(twins.backends) as fleet:
        for group, q in rows:
            answer.run(beginning=beginning_of(group), q=f"q{q}", backend=fleet)
    for group in range(8):
        assert list(twins.where(beginning_of(group)).values()) == [6]
    assert all(twins.asked), "the groups are spread"


def test_a_beginning_that_all_share_is_carried_by_all() -> None:
    """All 24 are placed before one is answered."""
    twins = Twins(3)
    twins.gate.clear()
    rows = [{"beginning": beginning_of(0), "q": f"q{q}"} for q in range(24)]
    with Fleet(twins.backends) as fleet:
        batch = threading.Thread(target=answer.run_batch, args=(rows,), kwargs={"backend": fleet})
        batch.start()
        lanes: list[Lane] = list(fleet._lanes)
        deadline = monotonic() + PATIENCE_S
        while sum(lane.num_in_flight for lane in lanes) < 24 and monotonic() < deadline:
            sleep(0.001)
        work = fleet._routing.work
        twins.gate.set()
        batch.join(PATIENCE_S)
        assert fleet._routing.work == (0, 0, 0) and not fleet._sent, "all is told to have ended"
    assert all(twins.asked) and sum(map(len, twins.asked)) == 24
    beginning_chars = len(beginning_of(0))
    assert max(work) - min(work) <= 9 * beginning_chars, "no more than computing it anew costs"


def test_the_runs_of_one_that_fails_go_to_the_others() -> None:
    twins = Twins(3)
    twins.broken.add(0)
    rows = [{"beginning": beginning_of(g), "q": f"q{q}"} for g in range(3) for q in range(8)]
    with Fleet(twins.backends, backoff=FAST) as fleet:
        states = answer.run_batch(rows, backend=fleet)
    assert all(outcome(state) == "ok" for state in states)
    assert twins.asked[1] and twins.asked[2]


def test_when_all_have_failed_the_runs_say_so() -> None:
    twins = Twins(2)
    twins.broken |= {0, 1}
    with Fleet(twins.backends, backoff=FAST, max_attempts=3) as fleet:
        state = answer.run(beginning="", q="q", backend=fleet)
        assert outcome(state) == "failed"
        with pytest.raises(sgl.ProgramError, match="gave up after 3 failures"):
            _ = state["a"]


def test_a_beginning_ends_where_a_model_writes() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += sgl.system("Be brief.") + sgl.user_begin() + "Why? "
        s += sgl.gen("a") + " and more" + sgl.user_end()

    graph = program.trace()
    found = beginning(graph.nodes)
    assert "Be brief." in found and found.endswith("Why? ")
    assert beginning([]) == ""
