"""Random programs over the wire: the same as in one process, with a death in the middle or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

import sgdsl as sgl
from sgdsl import MockBackend
from sgdsl.backends.policy import Backoff
from sgdsl.backends.remote import RuntimeEndpoint
from tests.runtime.server.live import LiveServer
from tests.sgdsl.naive import TEMPLATE, Step, answer, perform, programs, reply


def outcome_of(steps: tuple[Step, ...], backend: Any) -> Any:
    seen: list[Any] = []
    state = sgl.function(lambda s: perform(s, steps, seen)).run(backend=backend, seed=1)
    return state.outcome, state.text(), state.messages(), seen


@pytest.fixture(scope="module")
def remote() -> Iterator[RuntimeEndpoint]:
    with (
        LiveServer(MockBackend(reply, chat_template=TEMPLATE)) as server,
        RuntimeEndpoint(server.url, silence_s=30) as endpoint,
    ):
        yield endpoint


@settings(max_examples=40)
@given(steps=programs())
def test_a_program_over_the_wire_comes_to_the_same(
    remote: RuntimeEndpoint, steps: tuple[Step, ...]
) -> None:
    expected = outcome_of(steps, MockBackend(reply, chat_template=TEMPLATE))
    assert outcome_of(steps, remote) == expected


@settings(max_examples=30)
@given(steps=programs())
def test_a_run_moves_to_a_server_with_all_that_it_has(
    remote: RuntimeEndpoint, steps: tuple[Step, ...]
) -> None:
    num_left = 2

    def dies(request: Any) -> str:
        nonlocal num_left
        num_left -= 1
        if num_left < 0:
            raise sgl.BackendError("died")
        return reply(request)

    local = MockBackend(dies, chat_template=TEMPLATE)
    with sgl.Router([local, remote], backoff=Backoff(base_s=0.0)) as both:
        moved = outcome_of(steps, both)
    assert moved == outcome_of(steps, MockBackend(reply, chat_template=TEMPLATE))


def test_when_a_server_dies_the_job_goes_on_somewhere_else() -> None:
    @sgl.function
    def two(s: sgl.ProgramState) -> None:
        s += "Q" + sgl.gen("a") + sgl.gen("b")

    stalls = MockBackend({"a": "first", "b": sgl.STALL})
    with (
        LiveServer(stalls) as server,
        RuntimeEndpoint(server.url) as endpoint,
        sgl.Router([endpoint, MockBackend(reply)]) as both,
    ):
        state = two.run(backend=both, stream=True)
        assert "".join(state.text_iter("a")) == "first"
        server.kill()
        assert state["b"] == answer("Qfirst")
        assert state.outcome == sgl.Outcome("ok")
