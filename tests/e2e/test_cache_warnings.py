"""A workload that looks shared and misses says why, once; where nothing is wrong it is silent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from tests.e2e.conftest import HashService, MakeService

RULES = (
    "the work of each contributor is licensed as the whole, and all that is shared by one of them "
    "can be used by every other, whatever the source and the form in which it was first made. "
)


@sgl.function
def ask(s: ProgramState, before: str, rules: str, after: str) -> None:
    s += before + rules + after + sgl.gen("x", max_tokens=2, temperature=1.0, ignore_eos=True)


Row = dict[str, Any]
NUM_ROWS = 80


def letters(index: int) -> str:
    """Different from the first token on."""
    return f"{'abcdefghijklmnopqrstuvwxyz'[index % 26]}{index} "


def extraction(index: int) -> Row:
    return {"before": "", "rules": RULES, "after": letters(index)}


def stamped(index: int) -> Row:
    return {"before": letters(index) + "is the date. ", "rules": RULES, "after": "go"}


def unrelated(index: int) -> Row:
    return {"before": "", "rules": letters(index) * 20, "after": ""}


def one_by_one(service: HashService, row: Callable[[int], Row], **given: Any) -> None:
    """So that no row waits for another one's pages."""
    for index in range(NUM_ROWS):
        ask.run(**row(index), backend=service, seed=1, **given)


def chat(service: HashService) -> None:
    @sgl.function
    def talk(s: ProgramState, number: int) -> None:
        s += letters(number) * 12
        for _ in range(4):
            s += "what is the source of the work? " + sgl.gen("x", max_tokens=8, ignore_eos=True)
            _ = s["x"]

    talk.run_batch([(index,) for index in range(NUM_ROWS)], backend=service)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="sgdsl.runtime")
    return lambda: [record.getMessage() for record in caplog.records]


Said = Callable[[], list[str]]


def test_a_prefix_cache_that_is_off(make_service: MakeService, said: Said) -> None:
    one_by_one(make_service(page_size=4, prefix_cache=False), extraction)
    [message] = said()
    assert "of the prompts' tokens came before, and all of them are computed again" in message
    assert "prefix_cache=False; leave it on" in message


def test_a_pool_that_is_too_small(make_service: MakeService, said: Said) -> None:
    def three(index: int) -> Row:
        return {"before": "the a it"[index % 3 * 3 :][:3], "rules": RULES * 2, "after": ""}

    service = make_service(num_pages=50, page_size=4, eviction="lru")
    one_by_one(service, three)
    [message] = said()
    assert "the pool of 50 pages of 4 tokens is too small, and pages were evicted" in message
    stats = service.cache_stats
    assert stats.evicted_pages > 1000
    assert stats.hit_rate < 0.5 < stats.best_hit_rate


def test_prompts_that_differ_before_what_they_share(make_service: MakeService, said: Said) -> None:
    one_by_one(make_service(page_size=4), stamped)
    [message] = said()
    assert "prompts that are mostly the same differ at token 0, behind the beginning: '" in message
    assert "put what differs (a date, an id) behind what does not" in message


def test_the_place_and_the_texts_are_said(make_service: MakeService, said: Said) -> None:
    def dated(index: int) -> Row:
        return {**stamped(index), "before": "today is " + letters(index)}

    one_by_one(make_service(page_size=4), dated)
    [message] = said()
    assert "behind 'today is': ' " in message
    assert "differ at token 0" not in message


def test_what_is_shared_is_shorter_than_a_page(make_service: MakeService, said: Said) -> None:
    """It is copied, so that nothing is missing."""

    def brief(index: int) -> Row:
        return {"before": "", "rules": "the license of the work is ", "after": str(index)}

    service = make_service(page_size=64)
    one_by_one(service, brief)
    assert service.cache_stats.hit_rate > 0.5
    assert said() == []


def test_a_salt_for_every_run(make_service: MakeService, said: Said) -> None:
    service = make_service(page_size=4)
    for index in range(NUM_ROWS):
        ask.run(**extraction(index), backend=service, cache_salt=f"run {index}")
    [message] = said()
    assert "came before, but under another cache_salt (8 among the last 8 prompts)" in message


@pytest.mark.parametrize("row", [extraction, unrelated])
def test_where_nothing_is_wrong_nothing_is_said(
    make_service: MakeService, said: Said, row: Callable[[int], Row]
) -> None:
    one_by_one(make_service(page_size=4), row)
    one_by_one(make_service(page_size=4), row, cache_salt="ours")
    ask.run_batch([row(index) for index in range(200)], backend=make_service(page_size=4))
    assert said() == []


def test_nor_where_a_cache_that_is_off_could_give_nothing(
    make_service: MakeService, said: Said
) -> None:
    one_by_one(make_service(page_size=4, prefix_cache=False), unrelated)
    one_by_one(make_service(page_size=4, prefix_cache=False), stamped)
    assert said() == []


def test_nor_of_chats_of_pins_and_after_flushes(make_service: MakeService, said: Said) -> None:
    chat(make_service(page_size=4))
    service = make_service(page_size=4)
    with ask.cache(service):
        for index in range(NUM_ROWS):
            ask.run(**extraction(index), backend=service)
            service.flush_cache()
    assert said() == []


def test_each_cause_is_said_once(make_service: MakeService, said: Said) -> None:
    service = make_service(page_size=4, num_pages=4000)
    for _ in range(4):
        one_by_one(service, stamped)
        service.flush_cache()
    assert len(said()) == 1


def test_the_totals_are_told(make_service: MakeService) -> None:
    service = make_service(page_size=4, num_pages=40)
    with ask.bind(before=RULES).cache(service):
        one_by_one(service, extraction)
        stats = service.cache_stats
        told = service.server_info()["cache"]
    assert stats.pinned_pages == told["pinned_pages"] > 5
    assert 0 < stats.cached_tokens <= stats.reusable_tokens < stats.prompt_tokens
    assert 0.9 * stats.best_hit_rate <= stats.hit_rate <= stats.best_hit_rate < 1
    assert stats.cached_pages <= stats.num_pages == 40
    assert told["evicted_pages"] == stats.evicted_pages > 0
