"""`f.cache(backend)` keeps what it computes, whatever comes, until it is released."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends.remote import RuntimeEndpoint
from tests.e2e.conftest import HashService, MakeService
from tests.patience import await_that
from tests.runtime.server.live import LiveServer

STEM = "the license of the work is shared by each contributor of this work and " * 2 + "all others "
PAGE = 4


@sgl.function
def ask(s: ProgramState, text: str) -> None:
    s += STEM
    s += text + sgl.gen("x", max_tokens=4, temperature=0.0, ignore_eos=True)


@sgl.function
def other(s: ProgramState, index: int, num_tokens: int = 6) -> None:
    s += f"{index} is another text, as long as it takes " + sgl.gen(
        "x", max_tokens=num_tokens, ignore_eos=True
    )


@pytest.fixture
def service(make_service: MakeService) -> HashService:
    return make_service(num_pages=60, page_size=PAGE, max_running=4)


@pytest.fixture(params=["here", "there"])
def backend(request: pytest.FixtureRequest, service: HashService) -> Iterator[sgl.Backend]:
    """In this process, and over the wire."""
    if request.param == "here":
        yield service
        return
    with LiveServer(service) as server, RuntimeEndpoint(server.url) as remote:
        yield remote


def cached_tokens(backend: sgl.Backend, text: str) -> int:
    return int(ask.run(text, backend=backend).get_meta_info("x")["cached_tokens"])


def press(backend: sgl.Backend) -> None:
    """More pages than there are, several times."""
    other.run_batch([{"index": index} for index in range(40)], backend=backend)


def check_idle(service: HashService) -> None:
    """As soon as the engine has carried out what it was told last."""
    cache = service.engine.scheduler.cache
    await_that(lambda: cache.num_available == cache.num_pages)
    service.check_idle()


def num_pinned(service: HashService) -> int:
    return service.engine.scheduler.pins.num_pages


def test_it_survives_pressure_and_flushes_until_it_is_released(
    backend: sgl.Backend, service: HashService
) -> None:
    ask.cache(backend)
    pinned = num_pinned(service)
    assert pinned > 5
    for _ in range(2):
        press(backend)
        sgl.flush_cache(backend)
        assert cached_tokens(backend, "some") >= (pinned - 1) * PAGE
        assert num_pinned(service) == pinned
    ask.uncache(backend)
    await_that(lambda: num_pinned(service) == 0)
    sgl.flush_cache(backend)
    assert cached_tokens(backend, "some") == 0
    check_idle(service)


def test_a_block_releases_it_at_its_end(backend: sgl.Backend, service: HashService) -> None:
    with ask.cache(backend), ask.cache(backend):
        assert num_pinned(service) > 5
    await_that(lambda: num_pinned(service) == 0)
    check_idle(service)


def test_a_connection_takes_its_pins_with_it(service: HashService) -> None:
    with LiveServer(service) as server:
        with RuntimeEndpoint(server.url) as remote:
            ask.cache(remote)
            assert num_pinned(service) > 5
        await_that(lambda: num_pinned(service) == 0)
    check_idle(service)


def test_it_survives_preemptions(make_service: MakeService) -> None:
    service = make_service(num_pages=40, page_size=PAGE, max_running=8, hopes=True)
    ask.cache(service)
    pinned = num_pinned(service)
    rows = [{"index": index, "num_tokens": 40} for index in range(16)]
    alone = other.run_batch(rows, backend=make_service(num_pages=4000, page_size=PAGE), seed=1)
    found = other.run_batch(rows, backend=service, seed=1)
    assert [state.text() for state in found] == [state.text() for state in alone]
    assert service.scheduler_counts.preemptions > 0
    assert cached_tokens(service, "some") >= (pinned - 1) * PAGE
    ask.uncache(service)
    sgl.flush_cache(service)
    check_idle(service)


def test_more_than_the_share_of_the_pool_is_refused_with_the_numbers(
    make_service: MakeService,
) -> None:
    service = make_service(num_pages=16, page_size=PAGE)
    with pytest.raises(sgl.ProgramError) as caught:
        ask.cache(service)
    assert re.search(
        r"to keep a prefix of \d+ tokens, \d+ more pages of 4 would be pinned, but 0 are already, "
        r"and at most 8 of the pool's 16 may be; release others with uncache\(\), raise kv_bytes",
        str(caught.value),
    )
    assert num_pinned(service) == 0
    ask.cache(service, pin=False)
    assert cached_tokens(service, "some") > 0
    check_idle(service)


def test_a_prompt_that_does_not_fit_beside_pins_is_refused_with_the_numbers(
    make_service: MakeService,
) -> None:
    service = make_service(num_pages=30, page_size=PAGE)
    text = "a b c d e f " * 10
    fits = other.bind(index=0)
    with ask.cache(service, cache_salt="ours"):
        state = ask.run(text, backend=service)
        assert "beside what is pinned; shorten the prompt" in str(state.error())
        assert fits.run(backend=service).error() is None
    await_that(lambda: num_pinned(service) == 0)
    assert ask.run(text, backend=service).error() is None
    check_idle(service)


def test_what_runs_already_keeps_the_room_that_it_may_need(make_service: MakeService) -> None:
    service = make_service(num_pages=30, page_size=PAGE)
    gate, begun = threading.Event(), threading.Event()
    forward = service.executor.forward

    def held(batch: object) -> list[int]:
        begun.set()
        gate.wait()
        return forward(batch)  # type: ignore[arg-type]

    service.executor.forward = held  # type: ignore[method-assign]
    long = other.run(0, 80, backend=service, stream=True)
    begun.wait()
    threading.Timer(0.2, gate.set).start()
    with pytest.raises(sgl.ProgramError, match=r"a run under way may come to \d+ tokens and would"):
        ask.cache(service)
    assert long.error() is None
    await_that(lambda: service.engine.programs.num_runs == 0)
    ask.cache(service)
    ask.uncache(service)
    await_that(lambda: num_pinned(service) == 0)
    check_idle(service)


def test_nothing_is_pinned_any_more_once_the_engine_is_closed(service: HashService) -> None:
    ask.cache(service)
    service.close()
    assert num_pinned(service) == 0
    ask.uncache(service)
    check_idle(service)
