"""Models of every family through the engine, against transformers' own code and `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import sgdsl as sgl
from runtime import Runtime
from runtime.model.general import GeneralModel
from runtime.model.load import load_model
from runtime.tokenizer import Tokenizer
from tests.fakes import Hope
from tests.runtime.model.conftest import WriteModel
from tests.runtime.model.tiny_models import FAMILIES, GENERAL, in_pieces, logprobs_of
from tests.tiny_llama import VOCAB_SIZE

NUM_NEW = 20
PREFIX = "the license of this work is granted to each contributor under these terms "
PROMPTS = [PREFIX * count + end for count in (1, 2, 4) for end in ("is", "of the")]
PROMPTS.append("a")


@sgl.function
def complete(s: sgl.ProgramState, prompt: str) -> None:
    s += prompt + sgl.gen(
        "out", NUM_NEW, temperature=0.0, healing=False, return_logprob=True, ignore_eos=True
    )


@pytest.mark.parametrize("family", GENERAL)
def test_log_probabilities_are_those_of_transformers_whatever_the_chunks(
    family: str, write_model: WriteModel
) -> None:
    folder = write_model(GENERAL[family])
    model = load_model(folder)
    assert isinstance(model, GeneralModel)
    tokens = torch.randint(3, VOCAB_SIZE, (90,)).tolist()
    expected = logprobs_of(folder, tokens)
    for sizes in ([90], [40, 1, 1, 9, 20, *[1] * 19], [1] * 90):
        torch.testing.assert_close(in_pieces(model, tokens, sizes), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_that_of_generate_with_the_cache_cold_warm_and_off_and_after_preemption(
    family: str, write_model: WriteModel
) -> None:
    folder = write_model(FAMILIES[family])
    options: dict[str, Any] = {"page_size": 4, "token_budget": 24, "share_outputs": False}
    found = []
    with Runtime(folder, kv_bytes=1 << 22, max_running=6, **options) as runtime:
        expected = generated(folder, runtime.tokenizer)
        found += [run(runtime), run(runtime)]
        assert runtime.stats().cached_tokens > runtime.stats().prompt_tokens / 2
        token_bytes = runtime.kv_bytes // (runtime.num_pages * 4)
    with Runtime(folder, kv_bytes=1 << 22, prefix_cache=False, **options) as runtime:
        found.append(run(runtime))
    with Runtime(folder, kv_bytes=token_bytes * 112, max_running=6, **options) as runtime:
        runtime._engine.scheduler.usage = Hope()  # so that pages run out
        found.append(run(runtime))
        assert runtime.scheduler_counts.preemptions > 0
    for outputs in found:
        for (tokens, logprobs), (expected_tokens, expected_logprobs) in zip(
            outputs, expected, strict=True
        ):
            assert tokens == expected_tokens
            assert logprobs == pytest.approx(expected_logprobs, abs=1e-4)


Output = tuple[list[int], list[float]]
"""Tokens and their log-probabilities."""


def run(runtime: Runtime) -> list[Output]:
    states = complete.run_batch([{"prompt": prompt} for prompt in PROMPTS], backend=runtime)
    found = [state.get_meta_info("out")["output_token_logprobs"] for state in states]
    return [([token for _, token, _ in row], [logprob for logprob, _, _ in row]) for row in found]


def generated(folder: Path, tokenizer: Tokenizer) -> list[Output]:
    """One prompt at a time."""
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network.generation_config.eos_token_id = None
    found = []
    for prompt in PROMPTS:
        tokens = tokenizer.encode(prompt)
        out = network.generate(
            torch.tensor([tokens]),
            max_new_tokens=NUM_NEW,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        new = out.sequences[0, len(tokens) :].tolist()
        logprobs = [
            float(logits[0].float().log_softmax(-1)[token])
            for token, logits in zip(new, out.logits, strict=True)
        ]
        found.append((new, logprobs))
    return found
