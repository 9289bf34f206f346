"""Random programs on a real (tiny, random) model: loader, attention, sampler and masks together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from runtime import Runtime
from runtime.sampling import sampler
from runtime.sampling.request import SampleRow
from runtime.tokenizer import Tokenizer
from sgdsl.seeds import derive_seed
from tests import reference
from tests.tiny_llama import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS

TOKEN_BYTES = NUM_LAYERS * 2 * NUM_KV_HEADS * HEAD_DIM * 4

Logits = Callable[[list[int]], NDArray[np.float64]]


@pytest.fixture(scope="module")
def model(tiny_llama_path: Path) -> Logits:
    """transformers' own forward over the whole text, without a cache."""
    network: Any = AutoModelForCausalLM.from_pretrained(tiny_llama_path, dtype=torch.float32)

    def logits(tokens: list[int]) -> NDArray[np.float64]:
        with torch.inference_mode():
            out = network(torch.tensor([tokens]), use_cache=False).logits[0, -1]
        found: NDArray[np.float64] = out.double().numpy()
        return found

    return logits


ROUNDING = 1e-6
"""By how much another order of float32 sums moves a border between two tokens; seen: 1.2e-7."""


def draw(logits: NDArray[np.float64], temperature: float, u: float) -> int:
    """An example in which rounding decides is no example."""
    row = SampleRow(temperature=temperature, draw=u)
    values = torch.from_numpy(logits).float()
    if row.greedy:
        return int(values.argmax())
    cumulative = np.exp((logits - logits.max()) / temperature).cumsum()
    assume(np.abs(cumulative / cumulative[-1] - u).min() > ROUNDING)
    return sampler.draw(values, row)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"page_size": 4, "token_budget": 8, "max_running": 3, "kv_bytes": 500 * TOKEN_BYTES},
    {
        "page_size": 4,
        "max_running": 3,
        "kv_bytes": 500 * TOKEN_BYTES,
        "host_kv_bytes": 2000 * TOKEN_BYTES,
    },
    {"prefix_cache": False, "token_budget": 20, "max_running": 6},
]


@pytest.fixture(scope="module", params=OPTIONS, ids=["default", "small", "host tier", "uncached"])
def runtime(request: pytest.FixtureRequest, tiny_llama_path: Path) -> Iterator[Runtime]:
    options = {"kv_bytes": 20_000 * TOKEN_BYTES, **request.param}
    with Runtime(tiny_llama_path, **options) as backend:
        yield backend


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batch=st.lists(reference.programs, min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_a_batch_is_what_the_programs_are_one_by_one(
    runtime: Runtime,
    tokenizer: Tokenizer,
    model: Logits,
    batch: list[reference.Program],
    seed: int,
) -> None:
    states = reference.perform.run_batch(
        [{"program": program} for program in batch], backend=runtime, seed=seed
    )
    for index, (state, program) in enumerate(zip(states, batch, strict=True)):
        naive = reference.Naive(tokenizer, model, draw, derive_seed(seed, index))
        expected = naive.run(program)
        assert state.outcome is not None
        assert state.outcome.status in ("ok", "truncated"), state.outcome
        assert state.text() == expected.text
        assert {name: state[name] for name in expected.variables} == expected.variables
