"""A select of very many options: they are tokenised beside the engine's thread, to the same end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import sgdsl as sgl
from runtime import activities
from runtime.tokenizer import Tokenizer
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S
from tests.runtime.server.live import LiveServer

OPTIONS = [f"<{number % 7}{number}>" for number in range(300)]
METHODS = [
    sgl.token_length_normalized,
    sgl.greedy_token_selection,
    sgl.unconditional_likelihood_normalized,
]


@sgl.function
def choose(s: sgl.ProgramState, method: Any) -> None:
    s += "The first one is " + sgl.select("a", OPTIONS, choices_method=method)
    s += " and then " + sgl.gen("x", 3, ignore_eos=True, temperature=1.0)
    s += sgl.select("b", OPTIONS, choices_method=method)


@sgl.function
def write(s: sgl.ProgramState) -> None:
    s += "It is " + sgl.gen("x", 3, ignore_eos=True) + sgl.select("y", ["this", "that"])


class Watched:
    """Which options are tokenised, by the name of the thread; `gate` is passed by who does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_thread: dict[str, set[str]] = {}
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        monkeypatch.setattr(Tokenizer, "continue_with", self._seen(Tokenizer.continue_with))
        monkeypatch.setattr(Tokenizer, "encode", self._seen(Tokenizer.encode))

    def _seen(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def seen(tokenizer: Tokenizer, *arguments: Any) -> Any:
            text = arguments[0] if isinstance(arguments[0], str) else arguments[1][0].text
            if text in OPTIONS:
                name = threading.current_thread().name
                self.by_thread.setdefault(name, set()).add(text)
                self.begun.set()
                assert self.gate.wait(PATIENCE_S)
            return method(tokenizer, *arguments)

        return seen


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def outcome(state: sgl.ProgramState) -> Any:
    assert state.outcome is not None and state.outcome.error is None
    metas = [state.get_meta_info(name) for name in ("a", "b")]
    for meta in metas:
        del meta["id"], meta["e2e_latency"]
    return state.text(), metas


@pytest.mark.parametrize("method", METHODS)
def test_the_engines_thread_tokenises_none_of_them_and_the_choice_is_the_same(
    make_service: MakeService, watched: Watched, monkeypatch: pytest.MonkeyPatch, method: Any
) -> None:
    found = [outcome(choose.run(method, seed=1, backend=make_service()))]
    with LiveServer(make_service()) as server, sgl.RuntimeEndpoint(server.url) as remote:
        found.append(outcome(choose.run(method, seed=1, backend=remote)))
    assert watched.by_thread.pop("sgdsl-aside_0") == set(OPTIONS)
    [written] = watched.by_thread.values()  # what was chosen is text, behind which it goes on
    assert len(written) == 1
    monkeypatch.setattr(activities, "are_many", lambda _: False)
    watched.by_thread.clear()
    found.append(outcome(choose.run(method, seed=1, backend=make_service())))
    assert watched.by_thread == {"sgdsl-engine": set(OPTIONS)}
    assert found[0] == found[1] == found[2]


def test_others_go_on_meanwhile_and_its_cancellation_leaves_nothing(
    make_service: MakeService, watched: Watched
) -> None:
    service = make_service()
    watched.gate.clear()
    slow = choose.run(METHODS[0], backend=service, stream=True)
    assert watched.begun.wait(PATIENCE_S)
    other = write.run(backend=service)
    assert other.outcome is not None and other.outcome.error is None
    assert slow.outcome is None
    slow.cancel()
    watched.gate.set()
    assert outcome_status(slow) == "cancelled"
    write.run(backend=service)  # what the engine was sent before has been done
    service.flush_cache()
    service.check_idle()


def outcome_status(state: sgl.ProgramState) -> str:
    with pytest.raises(sgl.SgdslError):
        state.text()
    assert state.outcome is not None
    return state.outcome.status


def test_an_engine_that_is_closed_meanwhile_ends_its_run_and_the_thread(
    tokenizer: Tokenizer, watched: Watched
) -> None:
    service = HashService(tokenizer, num_pages=200)
    watched.gate.clear()
    slow = choose.run(METHODS[0], backend=service, stream=True)
    assert watched.begun.wait(PATIENCE_S)
    threading.Timer(0.05, watched.gate.set).start()
    service.close()
    assert outcome_status(slow) == "failed"
    assert not [each for each in threading.enumerate() if each.name.startswith("sgdsl-aside")]


def test_options_that_do_not_fit_are_refused_with_the_numbers(make_service: MakeService) -> None:
    @sgl.function
    def too_long(s: sgl.ProgramState) -> None:
        s += "x " + sgl.select("a", [*OPTIONS, "word " * 5000])

    service = make_service(num_pages=20)
    state = too_long.run(backend=service)
    assert state.outcome is not None and "may have" in str(state.outcome.error)
    service.check_idle()
