"""Log-probabilities of prompts and outputs, against transformers' own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.e2e.conftest import MakeService
from tests.fakes import extend_hash, hash_logits, log_softmax
from tests.tiny_llama import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS, VOCAB_SIZE

TOKEN_BYTES = NUM_LAYERS * 2 * NUM_KV_HEADS * HEAD_DIM * 4
PROMPT = "the license of this work is given to every contributor; the license "

Table = Callable[[list[int]], NDArray[np.float64]]
"""Log-probabilities after each of these tokens. [num_tokens, vocab_size]"""


@pytest.fixture(scope="module")
def model(tiny_llama_path: Path) -> Table:
    network: Any = AutoModelForCausalLM.from_pretrained(tiny_llama_path, dtype=torch.float32)

    def table(tokens: list[int]) -> NDArray[np.float64]:
        with torch.inference_mode():
            logits = network(torch.tensor([tokens]), use_cache=False).logits[0]
        found: NDArray[np.float64] = logits.double().log_softmax(-1).numpy()
        return found

    return table


def hash_table(tokens: list[int]) -> NDArray[np.float64]:
    rows, prefix = [], 0
    for token in tokens:
        prefix = extend_hash(prefix, token)
        rows.append(log_softmax(hash_logits(prefix, VOCAB_SIZE)))
    return np.array(rows)


@pytest.fixture(scope="module", params=[True, False], ids=["cached", "uncached"])
def runtime(request: pytest.FixtureRequest, tiny_llama_path: Path) -> Iterator[Runtime]:
    options = {"page_size": 4, "token_budget": 16, "max_running": 4}
    size = 2_000 * TOKEN_BYTES
    with Runtime(tiny_llama_path, kv_bytes=size, prefix_cache=request.param, **options) as backend:
        yield backend


@sgl.function
def score(s: sgl.ProgramState, prompt: str, asked: dict[str, Any]) -> None:
    s += prompt + sgl.gen("x", temperature=0.0, healing=False, **asked)


def check_tops(found: list[Any], row: NDArray[np.float64]) -> None:
    """The likeliest tokens in order, each with its log-probability."""
    logprobs = [logprob for logprob, _, _ in found]
    assert logprobs == sorted(logprobs, reverse=True)
    assert logprobs == pytest.approx(np.sort(row)[::-1][: len(found)], abs=1e-4)
    assert logprobs == pytest.approx([row[token] for _, token, _ in found], abs=1e-4)


def check(meta: dict[str, Any], prompt: list[int], table: Table, asked: dict[str, Any]) -> None:
    """All that `asked` asks for is there, and right."""
    start, num_top = asked.get("logprob_start_len"), asked.get("top_logprobs_num", 0)
    if start is None:
        start = 0 if asked["max_tokens"] == 0 else len(prompt)
    output = [token for _, token, _ in meta["output_token_logprobs"]]
    expected = table(prompt + output)
    inputs = meta["input_token_logprobs"]
    assert [token for _, token, _ in inputs] == prompt[start:]
    for position, (logprob, token, _) in enumerate(inputs, start):
        if position == 0:
            assert logprob is None
        else:
            assert logprob == pytest.approx(expected[position - 1, token], abs=1e-4)
    for position, (logprob, token, _) in enumerate(meta["output_token_logprobs"], len(prompt)):
        assert logprob == pytest.approx(expected[position - 1, token], abs=1e-4)
    if not num_top:
        assert "input_top_logprobs" not in meta
        return
    assert len(meta["input_top_logprobs"]) == len(inputs)
    for position, tops in enumerate(meta["input_top_logprobs"], start):
        if position == 0:
            assert tops is None
        else:
            assert len(tops) == num_top
            check_tops(tops, expected[position - 1])
    num_outputs = len(output) or int(asked["max_tokens"] == 0)
    assert len(meta["output_top_logprobs"]) == num_outputs
    for position, tops in enumerate(meta["output_top_logprobs"], len(prompt)):
        assert len(tops) == num_top
        check_tops(tops, expected[position - 1])


ASKED: list[dict[str, Any]] = [
    {"max_tokens": 5, "return_logprob": True},
    {"max_tokens": 5, "top_logprobs_num": 3},
    {"max_tokens": 4, "return_logprob": True, "logprob_start_len": 0},
    {"max_tokens": 4, "top_logprobs_num": 2, "logprob_start_len": 7},
    {"max_tokens": 4, "logprob_start_len": 20, "top_logprobs_num": VOCAB_SIZE // 4},
    {"max_tokens": 4, "logprob_start_len": 1000},
    {"max_tokens": 9, "top_logprobs_num": 2, "regex": "[a-z ]+"},
    {"max_tokens": 0, "return_logprob": True},
    {"max_tokens": 0, "top_logprobs_num": 4},
    {"max_tokens": 0, "top_logprobs_num": 4, "logprob_start_len": 9},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_log_probabilities_are_the_models(
    runtime: Runtime, tokenizer: Tokenizer, model: Table, asked: dict[str, Any]
) -> None:
    """The second time the cache holds the prompt, whose logits are gone."""
    prompt = tokenizer.continue_with([], [sgl.machine.Piece(PROMPT)])[1]
    for _ in range(2):
        meta = score.run(PROMPT, asked, backend=runtime).get_meta_info("x")
        assert meta["prompt_tokens"] == len(prompt)
        check(meta, prompt, model, asked)


def test_what_stands_before_the_scored_tokens_comes_from_the_cache(
    make_service: MakeService, tokenizer: Tokenizer
) -> None:
    service = make_service(page_size=1)
    prompt = tokenizer.continue_with([], [sgl.machine.Piece(PROMPT)])[1]
    score.run(PROMPT, {"max_tokens": 1}, backend=service)
    for start in (9, len(prompt) - 1):
        before = service.engine.scheduler.counts.computed_tokens
        asked = {"max_tokens": 0, "top_logprobs_num": 2, "logprob_start_len": start}
        meta = score.run(PROMPT, asked, backend=service).get_meta_info("x")
        assert service.engine.scheduler.counts.computed_tokens - before == len(prompt) - start + 1
        assert meta["cached_tokens"] == start - 1
        check(meta, prompt, hash_table, asked)
    service.check_idle()


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_in_a_batch_under_pressure_each_row_gets_its_own(
    make_service: MakeService, tokenizer: Tokenizer, prefix_cache: bool
) -> None:
    """Prompts are scored in pieces, preempted, and scored again."""
    service = make_service(
        num_pages=10,
        page_size=4,
        token_budget=12,
        max_running=6,
        prefix_cache=prefix_cache,
        hopes=True,
    )
    prompts = ["the work " * (count % 7 + 8) + f"{count}" for count in range(18)]
    rows = [(prompt, ASKED[index % len(ASKED)]) for index, prompt in enumerate(prompts)]
    states = score.run_batch(rows, backend=service)
    for state, (text, asked) in zip(states, rows, strict=True):
        prompt = tokenizer.continue_with([], [sgl.machine.Piece(text)])[1]
        check(state.get_meta_info("x"), prompt, hash_table, asked)
    assert service.engine.scheduler.counts.preemptions > 0
    service.check_idle()


def test_texts_stand_beside_the_tokens_only_when_they_are_asked_for(runtime: Runtime) -> None:
    asked = {"max_tokens": 3, "logprob_start_len": 0, "top_logprobs_num": 2}
    silent = score.run(PROMPT, asked, backend=runtime).get_meta_info("x")
    assert {text for _, _, text in silent["input_token_logprobs"]} == {None}
    told = score.run(PROMPT, asked, backend=runtime, return_text_in_logprobs=True).get_meta_info(
        "x"
    )
    assert "".join(text for _, _, text in told["input_token_logprobs"]) == PROMPT
    assert all(isinstance(text, str) for _, _, text in told["output_top_logprobs"][0])


def test_decoding_goes_on_from_each_of_the_likeliest_first_tokens(
    runtime: Runtime, tokenizer: Tokenizer, model: Table
) -> None:
    """Chain-of-thought decoding: the first tokens' texts are appended, and each fork goes on."""

    @sgl.function
    def decode(s: sgl.ProgramState) -> list[str]:
        s += "the license"
        s += sgl.gen("first", max_tokens=0, top_logprobs_num=3, return_text_in_logprobs=True)
        tops = s.get_meta_info("first")["output_top_logprobs"][0]
        forks = s.fork(len(tops))
        for fork, (_, _, text) in zip(forks, tops, strict=True):
            fork.append(text + sgl.gen("rest", 4, temperature=0.0, healing=False))
        forks.join()
        return [text for _, _, text in tops]

    state = decode.run(backend=runtime)
    prompt = tokenizer.continue_with([], [sgl.machine.Piece("the license")])[1]
    likeliest = np.argsort(model(prompt)[-1])[::-1][:3].tolist()
    assert state.ret_value == [tokenizer.decode([t]).decode("utf-8", "replace") for t in likeliest]
    assert len(state["rest"]) == 3
    assert state.text() == "the license"


def test_what_is_only_spelled_again_has_no_log_probabilities(runtime: Runtime) -> None:
    """The output's tokens are those of its text, whatever of the literal was taken back."""

    @sgl.function
    def write(s: sgl.ProgramState, prompt: str) -> None:
        s += prompt
        s += sgl.gen(
            "x",
            4,
            temperature=0.0,
            ignore_eos=True,
            top_logprobs_num=2,
            return_text_in_logprobs=True,
        )

    num_healed = 0
    for end in ("ire", "rit", "con", "lic", "the", "a", " w"):
        meta = write.run(PROMPT + end, backend=runtime).get_meta_info("x")
        tokens = meta["output_token_logprobs"]
        assert len(tokens) == len(meta["output_top_logprobs"]) == 4
        num_healed += meta["completion_tokens"] - 4
    assert num_healed > 0
