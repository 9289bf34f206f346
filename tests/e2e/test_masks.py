"""A step's masks: those of its rows one by one; and one that costs too much is its row's alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sgdsl as sgl
from grammars import CompileBudgetError, Compiler, JsonSchema, Matcher
from runtime.batch import Batch
from runtime.sampling.request import Sampled, SampleRequest
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramError, ProgramState
from tests.e2e.conftest import HashService, MakeService

SCHEMA = JsonSchema(
    {"type": "array", "items": {"enum": ["the", "work", 1, None]}, "minItems": 2, "maxItems": 4},
    whitespace="single",
)
KINDS: dict[str, dict[str, Any]] = {
    "free": {"ignore_eos": True},
    "healing": {"healing": True},
    "short": {"min_tokens": 6, "ignore_eos": False},
    "pattern": {"regex": "(?:ab|c)+d?"},
    "tight": {"constraint": SCHEMA},
    "goes on": {"regex": "[b-d]*", "ignore_eos": True},
    "has a least size": {"regex": "(?:b|c){1,9}", "min_tokens": 4, "healing": True},
}


@sgl.function
def write(s: ProgramState, kind: str, index: int) -> None:
    s += f"the lic {index}" + sgl.gen("x", 12 + index, **{"healing": False, **KINDS[kind]})


def one_by_one(service: HashService, batch: Batch) -> list[list[int]]:
    """Each row's own mask, from a cursor of its own."""
    expected = []
    for grant in batch.sampled:
        generation = service.engine.programs.roster.owner(grant.sequence).generation
        row = np.full(service.tokenizer.vocabulary.num_words, -1, dtype=np.int32)
        if generation.is_masked:
            if generation.matcher is not None:
                generation.matcher.fork().fill_bitmask(row)
            generation.narrow(row)
        expected.append(row.tolist())
    return expected


def test_a_batch_s_masks_are_those_of_its_rows_bit_for_bit(make_service: MakeService) -> None:
    service = make_service(max_running=16)
    sample, masked = service.executor.sample, []

    def checking(hidden: list[int], batch: Batch, request: SampleRequest) -> Sampled:
        if request.bitmask is None:
            assert {word for row in one_by_one(service, batch) for word in row} <= {-1}
        else:
            assert request.bitmask.tolist() == one_by_one(service, batch)
            masked.append(len(request.rows))
        return sample(hidden, batch, request)

    service.executor.sample = checking  # type: ignore[method-assign]
    rows = [{"kind": kind, "index": index} for index in range(4) for kind in KINDS]
    for state in write.run_batch(rows, backend=service, seed=5):
        assert state.error() is None
    assert max(masked) == 16
    service.check_idle()


@sgl.function
def write_this(s: ProgramState, pattern: str) -> None:
    s += "the license" + sgl.gen("x", 200, regex=pattern, healing=False, temperature=1.0)


CHEAP = "[a-z]{3,40}"
COSTLY = {
    "its first mask": "(?:.*a.{60}c)+",
    "a later mask": "x{20}(?:.*a.{60}c)+",
}


@pytest.mark.parametrize("kind", COSTLY)
def test_a_mask_that_costs_too_much_fails_its_row_alone(
    make_service: MakeService, tokenizer: Tokenizer, kind: str
) -> None:
    service = make_service()
    service._grammars._compiler = Compiler(tokenizer.vocabulary, max_lazy_steps=300)
    patterns = [CHEAP, COSTLY[kind], CHEAP, COSTLY[kind], CHEAP]
    states = write_this.run_batch([{"pattern": p} for p in patterns], backend=service, seed=1)
    for pattern, state in zip(patterns, states, strict=True):
        error = state.error()
        if pattern == CHEAP:
            assert error is None
            continue
        assert isinstance(error, ProgramError)
        assert isinstance(error.__cause__, CompileBudgetError)
        assert "needs more than 300" in str(error)
        assert "gen x regex=" in str(error)
        assert "test_masks.py:" in str(error)
    service.flush_cache()  # behind the step that has failed the row
    service.check_idle()


@pytest.mark.parametrize("method", ["whole_mask", "accept_token"])
def test_an_error_in_any_step_of_a_matcher_fails_its_row_alone(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    service = make_service()
    whole = getattr(Matcher, method)

    def failing(matcher: Matcher, *given: int) -> object:
        if matcher.remaining < 190 and matcher.grammar.min_tokens > 100:
            raise CompileBudgetError("the step costs too much")
        return whole(matcher, *given)

    monkeypatch.setattr(Matcher, method, failing)
    patterns = [CHEAP, "[ab]{150}", CHEAP]
    states = write_this.run_batch([{"pattern": p} for p in patterns], backend=service, seed=1)
    errors = [state.error() for state in states]
    assert errors[0] is errors[2] is None
    assert "the step costs too much" in str(errors[1])
    service.flush_cache()  # behind the step that has failed the row
    service.check_idle()
