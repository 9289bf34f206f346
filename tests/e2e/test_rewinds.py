"""Checks on the engine: what was computed before a gen is not computed again."""

from __future__ import annotations

import threading

import pytest

import sgdsl as sgl
from grammars import CompileBudgetError, search
from runtime.tokenizer import Tokenizer
from sgdsl.machine import Piece
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S

PROMPT = "the license of this work is given to every contributor; " * 6
RETRIES = 4


@sgl.function
def try_often(s: sgl.ProgramState, n: int) -> list[str]:
    """Its gen never passes, and is written again after each of the retries."""
    seen: list[str] = []
    s += PROMPT + sgl.gen("x", 5, temperature=1.5, ignore_eos=True, healing=False, n=n) + "."
    with pytest.raises(sgl.CheckFailed):
        s.check(seen.append, retries=RETRIES)  # which returns None
    s += "!" + sgl.gen("end", 2, ignore_eos=True)
    return seen


def num_prompt_tokens(tokenizer: Tokenizer) -> int:
    return len(tokenizer.continue_with([], [Piece(PROMPT)])[1])


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_an_attempt_computes_its_own_tokens_and_the_one_before_them(
    make_service: MakeService, tokenizer: Tokenizer, page_size: int
) -> None:
    service = make_service(page_size=page_size)
    state = try_often.run(backend=service, args={"n": 1})
    attempts = state.ret_value
    assert len(set(attempts)) == len(attempts) == RETRIES + 1
    num_computed = service.engine.scheduler.counts.computed_tokens
    # An attempt's last token is computed only with what follows it; the prompt's last one, which
    # the first token is drawn from, again for each attempt.
    once = num_prompt_tokens(tokenizer) + 5 * (RETRIES + 1) + 2 + len("!.")
    assert once - RETRIES - 8 <= num_computed <= once + RETRIES
    assert state.text().startswith(PROMPT + attempts[-1] + ".!")
    service.check_idle()


def test_several_completions_share_the_prompts_pages(
    make_service: MakeService, tokenizer: Tokenizer
) -> None:
    service = make_service(page_size=1)
    state = try_often.run(backend=service, args={"n": 3})
    attempts = state.ret_value
    assert len({text for values in attempts for text in values}) == 3 * (RETRIES + 1)
    num_computed = service.engine.scheduler.counts.computed_tokens
    assert num_computed <= num_prompt_tokens(tokenizer) + 3 * 6 * (RETRIES + 1) + 8
    metas = state.get_meta_info("x")["completions"]
    assert all(meta["cached_tokens"] >= num_prompt_tokens(tokenizer) - 1 for meta in metas[1:])
    service.check_idle()


def test_a_stream_of_the_engine_shows_each_attempt(make_service: MakeService) -> None:
    service, given, seen = make_service(), threading.Event(), list[str]()

    def second(value: str) -> bool:
        given.wait(PATIENCE_S)
        seen.append(value)
        return len(seen) == 2

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "the" + sgl.gen("x", 6, temperature=1.5, ignore_eos=True) + "::"
        s.check(second)
        s += "!"

    state = program.run(backend=service, seed=1, stream=True)
    text = ""
    for piece in state.text_iter():
        text += piece
        if text.endswith("::"):
            given.set()
    assert text == f"the{seen[0]}::{seen[1]}::!"
    assert state.text() == f"the{seen[1]}::!"
    service.check_idle()


def test_a_stop_pattern_ends_a_stream_before_it(make_service: MakeService) -> None:
    service = make_service()

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "the" + sgl.gen("x", 60, temperature=1.0, stop_regex=["[ae][a-z]{0,4}[nt]", "\\d+"])

    for seed in range(20):
        state = program.run(backend=service, seed=seed, stream=True)
        text = "".join(state.text_iter("x"))
        assert text == state["x"]
        reason = state.get_meta_info("x")["finish_reason"]
        whole = write_on(service, seed)
        assert whole.startswith(text)
        assert reason["type"] == "length" or reason["matched"] in {
            "[ae][a-z]{0,4}[nt]",
            "\\d+",
            0,
            2,
        }


@sgl.function
def write_until(s: sgl.ProgramState, pattern: str) -> None:
    s += "the" + sgl.gen("x", 40, temperature=1.0, ignore_eos=True, stop_regex=pattern)


def test_a_pattern_that_costs_too_much_fails_its_row_alone(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    monkeypatch.setattr(search, "LAZY", search.LAZY._replace(max_bytes=40_000))
    states = write_until.run_batch([("[^0]{300}c",), ("0c0",)], backend=service)
    error = states[0].error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, CompileBudgetError)
    assert states[1].error() is None
    service.check_idle()


def test_so_does_one_of_which_nobody_can_say_what_may_be_shown(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise CompileBudgetError("too much")

    monkeypatch.setattr(search.Search, "num_settled", refuse)
    service = make_service()
    state = write_until.run("0c0", backend=service, stream=True)
    with pytest.raises(sgl.ProgramError, match="CompileBudgetError: too much"):
        "".join(state.text_iter())
    assert write_until.run("0c0", backend=service).error() is None
    service.check_idle()


def write_on(service: HashService, seed: int) -> str:
    """What the model writes with this seed when nothing stops it."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "the" + sgl.gen("x", 60, temperature=1.0)

    text: str = program.run(backend=service, seed=seed)["x"]
    return text
