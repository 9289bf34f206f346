"""Random programs, many at a time, against the naive reference, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from numpy.typing import NDArray

from runtime.errors import ContextLengthError
from runtime.policies import POLICIES
from runtime.sampling.request import SampleRow
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramError
from sgdsl.seeds import derive_seed
from tests import fakes, reference
from tests.e2e.conftest import HashService
from tests.tiny_llama import VOCAB_SIZE

Model = Callable[[list[int]], NDArray[np.float64]]


def hash_model(tokens: list[int]) -> NDArray[np.float64]:
    prefix = 0
    for token in tokens:
        prefix = fakes.extend_hash(prefix, token)
    return fakes.hash_logits(prefix, VOCAB_SIZE)


def draw(logits: NDArray[np.float64], temperature: float, u: float) -> int:
    return fakes.draw(logits, SampleRow(temperature=temperature, draw=u))


configs = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([1, 4, 16]),
        "max_running": st.integers(1, 6),
        "token_budget": st.sampled_from([6, 16, 300]),
        "prefix_cache": st.booleans(),
        "policy": st.sampled_from(sorted(POLICIES)),
        "hopes": st.booleans(),
        "fickle": st.booleans(),
        "num_host_pages": st.sampled_from([0, 1, 8, 200]),
    }
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batch=st.lists(reference.programs, min_size=1, max_size=6),
    config=configs,
    num_slots=st.sampled_from([256, 400, 4000]),
    seed=st.integers(0, 1000),
)
def test_a_batch_is_what_the_programs_are_one_by_one(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    """Texts, variables and reads; greedy and sampled, with cache and without, under pressure, in
    every order.
    """
    with HashService(tokenizer, num_pages=num_slots // config["page_size"], **config) as service:
        check_batch(service, tokenizer, batch, seed=seed)


def check_batch(
    service: HashService,
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    *,
    seed: int,
    model: Model = hash_model,
) -> None:
    states = reference.perform.run_batch(
        [{"program": program} for program in batch], backend=service, seed=seed
    )
    for index, (state, program) in enumerate(zip(states, batch, strict=True)):
        naive = reference.Naive(tokenizer, model, draw, derive_seed(seed, index))
        expected = naive.run(program)
        assert state.outcome is not None
        if isinstance(state.outcome.error, ProgramError):
            assume(not isinstance(state.outcome.error.__cause__, ContextLengthError))
        assert state.outcome.status in ("ok", "truncated"), state.outcome
        assert state.text() == expected.text
        assert {name: state[name] for name in expected.variables} == expected.variables
    service.check_idle()


@pytest.mark.parametrize("stop_regex", reference.PATTERNS)
def test_stops_behind_min_tokens_that_end_in_half_a_character(
    tokenizer: Tokenizer, stop_regex: tuple[str, ...]
) -> None:
    """Every sixth token of this model is a part of a character, most of them of broken ones."""
    batch: list[reference.Program] = [
        (
            reference.Text(f"work {index}"),
            reference.Gen(
                "a",
                20,
                temperature=1.5,
                stop=("e", "\n") if index % 2 else (),
                min_tokens=1 + index % 3,
                stop_regex=stop_regex,
            ),
        )
        for index in range(60)
    ]
    with HashService(tokenizer, num_pages=250) as service:
        check_batch(service, tokenizer, batch, seed=1)


def test_a_special_token_that_a_gen_has_written_is_not_spelled_again(tokenizer: Tokenizer) -> None:
    """With this seed an output ends with one, and the next one follows at once."""
    stop_regex = reference.PATTERNS[3]
    first = reference.Gen("a", 20, temperature=1.5, min_tokens=3, stop_regex=stop_regex)
    second = reference.Gen("b", 8, temperature=1.5, min_tokens=3, stop_regex=stop_regex)
    batch: list[reference.Program] = [
        (reference.Text(f"work {index}"), first, second) for index in range(60)
    ]
    with HashService(tokenizer, num_pages=400) as service:
        check_batch(service, tokenizer, batch, seed=3)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_when_pages_run_out_rows_are_preempted_and_nothing_changes(
    tokenizer: Tokenizer, page_size: int, prefix_cache: bool
) -> None:
    """Twelve rows of up to 110 tokens in a pool of 160, with literals, forks and draws between."""
    batch: list[reference.Program] = [
        (
            reference.Text(f"the license {'work ' * index}"),
            reference.Gen("a", 30, temperature=1.5 * (index % 2)),
            reference.Text(" contributor"),
            reference.Forked(
                (
                    (reference.Gen("b", 10, temperature=1.0),),
                    (reference.Text("x"), reference.Gen("b", 12)),
                ),
                "gather_variable",
            ),
            reference.Gen("c", 20, stop=("th",)),
        )
        for index in range(12)
    ]
    with HashService(
        tokenizer,
        num_pages=160 // page_size,
        page_size=page_size,
        max_running=6,
        token_budget=32,
        prefix_cache=prefix_cache,
        hopes=True,
    ) as service:
        check_batch(service, tokenizer, batch, seed=1)
        assert service.engine.scheduler.counts.preemptions > 0
