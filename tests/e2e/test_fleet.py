"""Several engines as one backend: outputs, cache hits, and the death of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

import sgdsl as sgl
from runtime.line import Line
from runtime.tokenizer import Tokenizer
from sgdsl.backends.policy import Backoff
from sgdsl.graph import Sampling
from sgdsl.machine import Completion, Piece, Replay, Spelling
from sgdsl.run import Run
from tests.e2e.conftest import HashService, MakeService
from tests.runtime.server.live import LiveServer

NUM_GROUPS, ROWS = 6, 8
FAST = Backoff(base_s=0.001, max_s=0.002)


@sgl.function
def extract(s: sgl.ProgramState, group: int, row: int) -> None:
    s += f"{group} is the license of this work and of its contributors. " * 20
    s += f"The row is {row}: " + sgl.gen("x", 12, temperature=0.8)
    if s["x"]:
        s += " and " + sgl.select("y", ["this", "that"])


ARGUMENTS = [{"group": group, "row": row} for row in range(ROWS) for group in range(NUM_GROUPS)]


def outputs(backend: Any) -> list[list[str]]:
    states = extract.run_batch(ARGUMENTS, backend=backend, seed=3)
    assert all(state.outcome is not None for state in states)
    return [[state["x"], state["y"]] for state in states]


@pytest.fixture
def services(tokenizer: Tokenizer) -> Iterator[list[HashService]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(HashService(tokenizer, num_pages=600, share_outputs=False))
            for _ in range(3)
        ]


@pytest.fixture
def alone(tokenizer: Tokenizer) -> list[list[str]]:
    with HashService(tokenizer, num_pages=600, share_outputs=False) as service:
        return outputs(service)


def test_who_carries_a_run_changes_nothing_and_sharers_stay_together(
    services: list[HashService], alone: list[list[str]]
) -> None:
    with sgl.Fleet(services) as fleet:
        assert outputs(fleet) == alone
    for service in services:
        service.check_idle()
    stats = [service.stats() for service in services]
    assert all(each.prompt_tokens for each in stats), "all have had something to do"
    # Each group is computed once by each of two at most: the first one, and one that was idle.
    hit_rate = sum(s.cached_tokens for s in stats) / sum(s.prompt_tokens for s in stats)
    assert hit_rate > 1 - 2 / ROWS


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_the_death_of_one_loses_no_run(
    services: list[HashService], alone: list[list[str]], when: str
) -> None:
    if when == "before":
        services[0].close()
    else:
        die_after(services[0], 20)
    with sgl.Fleet(services, backoff=FAST) as fleet:
        found = outputs(fleet)
    assert found == alone
    assert not services[0].is_alive
    for service in services[1:]:
        service.check_idle()


# A run that moves: what follows there depends on its tokens, not only on its text.


@sgl.function
def mixed(s: sgl.ProgramState) -> None:
    """All that tokens may be written by; drawn, so that they are not those of their text."""
    drawn: dict[str, Any] = {"temperature": 1.5, "ignore_eos": True}
    s += "The work is " + sgl.gen("x", 5, stop="e", **drawn)
    s += " and the contrib" + sgl.gen("y", 4, **drawn) + " " + sgl.select("z", ["this", "that"])
    forks = s.fork(2)
    forks += "." + sgl.gen("a", 3, **drawn)
    forks.join("concate_and_append")
    s += sgl.gen("many", 3, n=2, **drawn) + ": " + sgl.gen("digits", regex="[0-9]{3}", **drawn)
    attempts = iter(range(9))
    s.check(lambda _: next(attempts) == 1, name="digits")
    s += " then " + sgl.gen("end", 4, **drawn)


def result(state: sgl.ProgramState) -> Any:
    assert state.outcome is not None and state.outcome.error is None
    return state.text(), state["many"]


def die_after(service: HashService, num_steps: int) -> None:
    """Have the engine die in the step behind so many."""
    executor, forward = service.executor, service.executor.forward

    def dies(batch: Any) -> Any:
        if len(executor.log) >= num_steps:
            raise RuntimeError("a device has gone")
        return forward(batch)

    executor.forward = dies  # type: ignore[method-assign]


def test_a_run_that_moves_goes_on_from_its_tokens_wherever_it_was(
    make_service: MakeService,
) -> None:
    whole = make_service()
    alone = result(mixed.run(backend=whole, seed=5))
    num_steps = len(whole.executor.log)
    assert num_steps > 15
    for num in range(1, num_steps):
        dying, second = make_service(), make_service()
        die_after(dying, num)
        with sgl.Router([dying, second], backoff=FAST) as router:
            assert result(mixed.run(backend=router, seed=5)) == alone, f"it died after {num} steps"
        assert not dying.is_alive
        second.check_idle()


def test_a_stream_that_moves_goes_on_from_its_tokens(make_service: MakeService) -> None:
    @sgl.function
    def stream(s: sgl.ProgramState, **options: Any) -> None:
        s += "The work is given " + sgl.gen("x", temperature=1.5, **options)

    for options in ({"max_tokens": 12, "ignore_eos": True}, {"regex": "[a-z ]{20}"}):
        alone = stream.run(backend=make_service(), seed=2, args=options)
        for num in range(1, len(alone["x"]) // 2, 3):
            dying, second = make_service(), make_service()
            die_after(dying, num)
            with sgl.Router([dying, second], backoff=FAST) as router:
                state = stream.run(backend=router, seed=2, stream=True, args=options)
                assert "".join(state.text_iter("x")) == alone["x"]
            assert meta_of(state) == meta_of(alone)
            second.check_idle()


def meta_of(state: sgl.ProgramState) -> Any:
    names = ("completion_tokens", "forced_tokens", "finish_reason")
    meta = state.get_meta_info("x")
    return {name: meta.get(name) for name in names}


def test_tokens_travel_between_servers(
    make_service: MakeService,
) -> None:
    alone = result(mixed.run(backend=make_service(), seed=5))
    for num in (6, 12, 18):
        dying, second = make_service(), make_service()
        die_after(dying, num)
        with ExitStack() as stack:
            servers = [stack.enter_context(LiveServer(each)) for each in (dying, second)]
            ends = [stack.enter_context(sgl.RuntimeEndpoint(each.url)) for each in servers]
            assert {end.tokenizer_id for end in ends} == {second.tokenizer_id}
            router = stack.enter_context(sgl.Router(ends, backoff=FAST))
            assert result(mixed.run(backend=router, seed=5)) == alone
        second.check_idle()


def replayed(tokenizer: Tokenizer, spelling: Spelling) -> list[int]:
    """The tokens of a line that goes on behind "a w" and the text "xy", given with its spelling."""
    line = Line(0, Run(template=tokenizer.chat_template, defaults=Sampling(), seed=0))
    line.pending = [Piece("a w")]
    completion = Completion("xy", spelling=spelling)
    line.replay(Replay((Piece("xy", written=True),), completion), tokenizer)
    line.flush(tokenizer)
    return line.sequence.tokens


def test_tokens_that_are_not_of_the_text_are_passed_over(tokenizer: Tokenizer) -> None:
    before = tokenizer.continue_with([], [Piece("a w")])[1]
    x, y = (tokenizer.token_bytes.index(each) for each in (b"x", b"y"))
    own = Spelling(tokenizer.fingerprint, 0, (x, y))
    assert replayed(tokenizer, own) == [*before, x, y]
    assert replayed(tokenizer, replace(own, residue="")) == [*before, x, y]
    part = replace(own, tokens=(x,), residue="y")
    as_text = replayed(tokenizer, replace(own, tokenizer="another"))
    assert tokenizer.decode(as_text) == b"a wxy"
    assert tokenizer.decode(replayed(tokenizer, part)) == b"a wxy"
    for wrong in (
        {"tokens": (y, x)},
        {"tokens": (x, -1)},
        {"tokens": (x, 1 << 40)},
        {"taken": 1},  # they do not spell it again
        {"taken": 99},
        {"residue": "z"},
    ):
        assert replayed(tokenizer, replace(own, **wrong)) == as_text
