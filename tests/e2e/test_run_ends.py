"""How runs end on the real engine: deadlines, failing forks, async bodies, prefixes ahead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import AsyncProgramState, ProgramState, gen
from tests.e2e.conftest import MakeService
from tests.patience import await_that

pytestmark = pytest.mark.timeout(120)


@sgl.function
def ask(s: ProgramState, q: str, tokens: int = 8) -> None:
    s += "Answer every question in one word, and nothing else. Question: " + q
    s += " Answer:" + gen("a", tokens, temperature=0, ignore_eos=True)


def test_a_deadline_gives_everything_back(make_service: MakeService) -> None:
    service = make_service(num_pages=64)
    state = ask.run("never", tokens=10**9, backend=service, timeout_s=0.001)
    assert isinstance(state.error(), sgl.DeadlineError)
    await_that(lambda: service.engine.programs.num_runs == 0)
    service.flush_cache()  # the engine's thread has finished its step
    service.check_idle()
    assert ask.run("again", backend=service).outcome == sgl.Outcome("truncated")


def test_a_fork_that_fails_is_collected_and_the_others_go_on(make_service: MakeService) -> None:
    service = make_service(num_pages=64)

    @sgl.function
    def forked(s: ProgramState) -> Any:
        s += "begin "
        forks = s.fork(3)
        forks[0] += gen("a", 4)
        forks[1] += "x" * 10_000 + gen("a", 4)  # longer than the context
        forks[2] += gen("a", 4)
        forks.join(on_error="collect")
        s += " end" + gen("b", 4)
        return s["a"], s["b"]

    for _ in range(3):
        first, second, third = forked.run(backend=service, ignore_eos=True).ret_value[0]
        assert isinstance(first, str)
        assert isinstance(third, str)
        assert isinstance(second, sgl.ProgramError)
        assert "shorten the prompt" in str(second)
    service.flush_cache()
    service.check_idle()


def test_async_rows_give_what_plain_rows_give(make_service: MakeService) -> None:
    service = make_service(num_pages=256)

    @sgl.function
    def plain(s: ProgramState, q: str) -> tuple[str, str]:
        s += q + gen("a", 6)
        s += s["a"][:1] + gen("b", 6)
        return s["a"], s["b"]

    @sgl.function
    async def awaited(s: AsyncProgramState, q: str) -> tuple[str, str]:
        s += q + gen("a", 6)
        s += (await s.get("a", str))[:1] + gen("b", 6)
        return await s.get("a", str), await s.get("b", str)

    rows = [(f"row {index}",) for index in range(20)]
    one = [each.ret_value for each in plain.run_batch(rows, backend=service, seed=5)]
    states = asyncio.run(awaited.arun_batch(rows, backend=service, seed=5))
    assert [each.ret_value for each in states] == one


def test_a_prefix_that_was_computed_ahead_is_found_in_the_cache(make_service: MakeService) -> None:
    service = make_service(num_pages=64)
    ask.cache(service)
    before = service.stats()
    state = ask.run("Who?", backend=service)
    after = service.stats()
    constant = "Answer every question in one word, and nothing else. Question: "
    num_constant = len(service.tokenizer.encode(constant))
    cached = after.cached_tokens - before.cached_tokens
    assert cached >= num_constant - 2 * 16  # whole pages; the last token may merge
    assert cached > 0
    assert state.get_meta_info("a")["cached_tokens"] == cached
