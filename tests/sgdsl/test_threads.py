"""Threads for single bodies: their bound, and those that are left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, gen
from sgdsl.threads import Threads, num_left_behind
from tests.patience import PATIENCE_S, await_that

pytestmark = pytest.mark.timeout(120)


def test_no_more_than_the_limit_go_on_at_once_and_all_are_done() -> None:
    threads = Threads("test-bounded", limit=3)
    lock, going, most, done = threading.Lock(), 0, 0, 0

    def job() -> None:
        nonlocal going, most, done
        with lock:
            going += 1
            most = max(most, going)
        threading.Event().wait(0.002)
        with lock:
            going -= 1
            done += 1

    for _ in range(30):
        threads.start(job)
    await_that(lambda: done == 30)
    assert most <= 3


def test_what_a_job_waits_for_does_not_wait_for_the_job() -> None:
    threads = Threads("test-nested", limit=1)
    done = threading.Event()

    def nest(depth: int, over: threading.Event) -> None:
        if depth:
            inner = threading.Event()
            threads.start(partial(nest, depth - 1, inner))
            assert inner.wait(PATIENCE_S)
        over.set()

    threads.start(partial(nest, 5, done))
    assert done.wait(PATIENCE_S)


def test_a_job_that_is_left_behind_holds_nobody_up() -> None:
    threads = Threads("test-left", limit=1)
    free, done = threading.Event(), threading.Event()
    begun = threading.Event()

    def stuck() -> None:
        begun.set()
        free.wait(PATIENCE_S)

    job = threads.start(stuck)
    never = threads.start(lambda: pytest.fail("it was left before it had begun"))
    threads.start(done.set)
    assert begun.wait(PATIENCE_S)
    never.leave()
    assert not done.is_set()
    job.leave()
    job.leave()
    assert done.wait(PATIENCE_S)
    assert num_left_behind() == 1
    free.set()
    await_that(lambda: num_left_behind() == 0)


def test_streams_inside_of_streams_do_not_run_out_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sgdsl.threads.bodies._limit", 1)

    @sgl.function
    def inner(s: ProgramState) -> None:
        s += gen("a")

    @sgl.function
    def outer(s: ProgramState) -> str:
        return "".join(inner.run(stream=True).text_iter())

    state = outer.run(backend=MockBackend(), stream=True)
    assert state.ret_value == "mock"


FORK = """
import asyncio, os, sys
import sgdsl as sgl

@sgl.function
def ask(s):
    s += "a" + sgl.gen("x")

mock, threaded = sgl.MockBackend(), sgl.MockBackend(stepwise=True)
api = sgl.OpenAI("m", "http://127.0.0.1:9/v1", api_key="k", max_retries=0)
for backend in (mock, threaded, api):
    ask.run(backend=backend, timeout_s=9)  # threads for bodies and for deadlines are idle now
asyncio.run(ask.arun_batch([()], backend=mock))
if os.fork() == 0:
    states = [ask.run(backend=backend, timeout_s=9) for backend in (mock, threaded, api)]
    states += ask.run_batch([()], backend=mock, timeout_s=9)
    states += asyncio.run(ask.arun_batch([()], backend=mock))
    print([state.outcome.status for state in states], states[1].error(), states[2].error())
    api.close()
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def test_a_fork_of_the_process_has_threads_of_its_own() -> None:
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        cwd=root,
        check=True,
        timeout=4 * PATIENCE_S,
    )
    assert found.stdout.startswith("['ok', 'failed', 'failed', 'ok', 'ok']")
    assert found.stdout.count("before this process was forked") == 2
    assert not found.stderr
