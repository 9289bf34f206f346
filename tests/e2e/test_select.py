"""The three choice methods on a real (tiny, random) model, against brute force."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

import sgdsl as sgl
from runtime import Runtime
from runtime.tokenizer import Tokenizer
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Select, Text
from sgdsl.machine import Piece
from sgdsl.run import Run
from tests.e2e.conftest import MakeService
from tests.tiny_llama import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS

POOL_BYTES = 2_000 * NUM_LAYERS * 2 * NUM_KV_HEADS * HEAD_DIM * 4
CHOICES = ["license", "licensor of the work", "contribution", "a", "any of the above"]
PROMPTS = ["the ", "this is the license: ", "a contributor gives a "]


@pytest.fixture(scope="module")
def runtime(tiny_llama_path: Path) -> Iterator[Runtime]:
    with Runtime(tiny_llama_path, kv_bytes=POOL_BYTES, page_size=4) as backend:
        yield backend


class Brute:
    """Every token's log-probability from a forward over the whole text."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._tokenizer = tokenizer

    def logprobs(self, tokens: list[int], start: int) -> list[float]:
        with torch.inference_mode():
            logits = self._network(torch.tensor([tokens]), use_cache=False).logits[0].double()
        table: NDArray[np.float64] = logits.log_softmax(-1).numpy()
        return [float(table[i - 1, tokens[i]]) for i in range(start, len(tokens))]

    def conditional(
        self, prompt: str, choices: Sequence[str], asked: Sequence[int] | None = None
    ) -> list[list[float]]:
        """From the first token in which any choice departs from the prompt. `asked`: of these
        choices only.
        """
        tokenizer = self._tokenizer
        tokens = tokenizer.continue_with([], [Piece(prompt)])[1]
        rows = []
        for choice in choices:
            keep, following = tokenizer.continue_with(tokens, [Piece(choice)])
            rows.append(tokens[:keep] + following)
        border = next(
            i
            for i in range(len(tokens) + 1)
            if any(row[: i + 1] != tokens[: i + 1] for row in rows)
        )
        return [self.logprobs(rows[i], border) for i in asked or range(len(rows))]

    def unconditional(self, choices: Sequence[str]) -> list[list[float]]:
        start = [self._tokenizer.start_token_id]
        return [self.logprobs(start + self._tokenizer.encode(text), 1) for text in choices]


@pytest.fixture(scope="module")
def brute(tiny_llama_path: Path, tokenizer: Tokenizer) -> Brute:
    return Brute(tiny_llama_path, tokenizer)


def greedy(table: list[list[float]]) -> int:
    """Column by column, the rows that hold the maximum stay; short rows end in their mean."""
    width = max(map(len, table))
    rows = {i: [*row, *[float(np.mean(row))] * (width - len(row))] for i, row in enumerate(table)}
    for column in range(width):
        best = max(row[column] for row in rows.values())
        rows = {i: row for i, row in rows.items() if math.isclose(row[column], best, abs_tol=1e-5)}
    return min(rows)


@sgl.function
def choose(s: sgl.ProgramState, prompt: str, method: Any, choices: Sequence[str] = CHOICES) -> None:
    s += prompt + sgl.gen("x", choices=list(choices), choices_method=method)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "method",
    [
        sgl.token_length_normalized,
        sgl.greedy_token_selection,
        sgl.unconditional_likelihood_normalized,
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_select_is_what_brute_force_says(
    runtime: Runtime, brute: Brute, method: Any, prompt: str
) -> None:
    state = choose.run(prompt, method, backend=runtime)
    meta = state.get_meta_info("x")
    conditional = brute.conditional(prompt, CHOICES)
    unconditional = brute.unconditional(CHOICES)
    means = np.array([np.mean(row) for row in conditional])
    gains = means - [np.mean(row) for row in unconditional]
    if method is sgl.greedy_token_selection:
        best = greedy(conditional)
    else:
        best = int(np.argmax(means if method is sgl.token_length_normalized else gains))
    assert state["x"] == CHOICES[best]
    assert state.text() == prompt + CHOICES[best]
    assert meta["normalized_prompt_logprobs"] == pytest.approx(means, abs=1e-4)
    assert math.isclose(sum(meta["probabilities"]), 1)
    for row, expected in zip(meta["input_token_logprobs"], conditional, strict=True):
        assert [logprob for logprob, _, _ in row] == pytest.approx(expected, abs=1e-4)
    for row, choice in zip(meta["input_token_logprobs"], CHOICES, strict=True):
        assert "".join(text for _, _, text in row).endswith(choice)
    if method is sgl.unconditional_likelihood_normalized:
        assert meta["normalized_unconditional_prompt_logprobs"] == pytest.approx(gains, abs=1e-4)
        for row, expected in zip(meta["unconditional_token_logprobs"], unconditional, strict=True):
            assert [logprob for logprob, _, _ in row] == pytest.approx(expected, abs=1e-4)


LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text()
SETS = {
    "beginnings of each other": ["a", "an", "any", "any of", "any of the", "lic", "license", "l"],
    "one": ["license"],
    "short and long": ["of", LICENSE[300:1000], LICENSE[300:800], "the " * 200, "the " * 3 + "law"],
    "with a common beginning": [f"the work of {name}" for name in ("you", "your heirs", "others")],
}


@pytest.mark.parametrize(
    "options",
    [
        {"prefix_cache": False},
        {"page_size": 16},
        {"token_budget": 1, "max_running": 1},
        {"token_budget": 7, "max_running": 2},
    ],
    ids=str,
)
def test_whatever_options_share_each_has_the_log_probability_of_its_own_text(
    tiny_llama_path: Path, brute: Brute, options: dict[str, Any]
) -> None:
    """In any pieces, with all sets at once, and again when their prompts are cached."""
    method = sgl.unconditional_likelihood_normalized
    asked = [(prompt, each) for each in SETS.values() for prompt in (PROMPTS[0], LICENSE[:150])]
    expected = [(brute.conditional(*each), brute.unconditional(each[1])) for each in asked]
    rows = [{"prompt": prompt, "method": method, "choices": each} for prompt, each in asked]
    with Runtime(tiny_llama_path, kv_bytes=POOL_BYTES, **{"page_size": 4, **options}) as backend:
        for _ in range(2):
            states = choose.run_batch(rows, backend=backend)
            for state, (conditional, unconditional) in zip(states, expected, strict=True):
                meta = state.get_meta_info("x")
                found = [*meta["input_token_logprobs"], *meta["unconditional_token_logprobs"]]
                for one, row in zip(found, [*conditional, *unconditional], strict=True):
                    assert [logprob for logprob, _, _ in one] == pytest.approx(row, abs=1e-4)


def test_ten_thousand_options_are_scored_like_one(runtime: Runtime, brute: Brute) -> None:
    words = sorted(set(re.findall("[a-z]{3,}", LICENSE)))
    choices = [f"{words[i % 97]} {words[i // 97]} {i}" for i in range(10_000)]
    before = runtime.step_stats.computed_tokens
    state = choose.run(PROMPTS[1], sgl.greedy_token_selection, choices, backend=runtime)
    meta = state.get_meta_info("x")
    assert runtime.step_stats.computed_tokens - before < sum(
        len(row) for row in meta["input_token_logprobs"]
    )
    asked = list(range(0, 10_000, 250))
    for i, row in zip(asked, brute.conditional(PROMPTS[1], choices, asked), strict=True):
        found = [logprob for logprob, _, _ in meta["input_token_logprobs"][i]]
        assert found == pytest.approx(row, abs=1e-4)
    assert math.isclose(sum(meta["probabilities"]), 1)


@pytest.mark.parametrize("num_steps", [0, 1, 3, 9])
def test_a_select_that_is_cancelled_in_the_middle_leaves_nothing(
    make_service: MakeService, num_steps: int
) -> None:
    service = make_service(num_pages=60, token_budget=8, max_running=2)
    run = Run(template=service.chat_template, defaults=DEFAULT_SAMPLING, seed=7)
    choices = tuple(LICENSE[start : start + 40] for start in range(0, 2000, 40))
    method = sgl.unconditional_likelihood_normalized
    run.extend([Text(0, ROOT, None, "the work "), Select(1, ROOT, None, "x", choices, method)])
    run.close()
    service.engine.programs.start(run, {})
    assert all(service.engine.step() for _ in range(num_steps))
    run.cancel()
    service.engine.programs.wake(run, {})
    assert run.outcome is not None
    assert run.outcome.status == "cancelled"
    assert not service.engine.step()
    service.check_idle()


def test_a_select_tells_how_much_of_its_prompt_was_cached(runtime: Runtime) -> None:
    prompt = "contributions of the licensor: " * 4
    metas = [
        choose.run(prompt, sgl.token_length_normalized, [option, "b"], backend=runtime)
        for option in ("a", "a work", "any")
    ]
    cached = [state.get_meta_info("x")["cached_tokens"] for state in metas]
    total = metas[0].get_meta_info("x")["prompt_tokens"]
    assert cached[0] < total - 16
    assert all(total - 16 < each < total for each in cached[1:])


def test_a_quotation_occurs_in_its_source(runtime: Runtime) -> None:
    source = "The licensor gives you a license. You may copy the work, and sell it."

    @sgl.function
    def quote(s: sgl.ProgramState) -> None:
        s += "Quote:" + sgl.gen("x", 12, substring_of=source, temperature=2.0)

    texts = [state["x"] for state in quote.run_batch([{}] * 12, backend=runtime, seed=4)]
    assert all(text and text in source for text in texts)
    assert len(set(texts)) > 3


def test_an_empty_gen_needs_no_room_and_a_constraint_that_is_never_empty_refuses_it(
    runtime: Runtime,
) -> None:
    @sgl.function
    def nothing(s: sgl.ProgramState, kind: dict[str, Any]) -> None:
        s += "the work" + sgl.gen("x", 0, **kind) + "." + sgl.gen("y", 3)

    state = nothing.run({}, backend=runtime)
    meta = state.get_meta_info("x")
    assert (state["x"], meta["completion_tokens"]) == ("", 0)
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    assert meta["prompt_tokens"] > 0
    assert "output_token_logprobs" not in meta
    assert nothing.run({"regex": "a?"}, backend=runtime)["x"] == ""
    failed = nothing.run({"regex": "a+"}, backend=runtime)
    assert "max_tokens allows 0 tokens here" in str(failed.error())
