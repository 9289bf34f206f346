"""The engine on a GPU against the engine on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import sgdsl as sgl
from runtime import Runtime
from runtime.executor.cuda_graph import DecodeGraphs

PROMPTS = [f"The {thing} is a work that" for thing in ("license", "program", "notice", "source")]
PROMPTS *= 4
NUM_TOKENS = 24
TIE = 0.15
"""Between two tokens' log-probabilities in float32, which bfloat16 may turn around."""


Texts = list[tuple[list[int], list[int]]]
"""Of each prompt its tokens, and those that were written behind them."""


@sgl.function
def write(s: Any, prompt: str) -> None:
    asked: dict[str, Any] = {"ignore_eos": True, "healing": False}
    asked |= {"return_logprob": True, "logprob_start_len": 0}
    s += prompt + sgl.gen("text", NUM_TOKENS, temperature=0.0, **asked)


def texts(model: Path, **options: Any) -> Texts:
    with Runtime(model, **options) as runtime:
        states = write.run_batch([{"prompt": each} for each in PROMPTS], backend=runtime)
        metas = [state.get_meta_info("text") for state in states]
    names = ("input_token_logprobs", "output_token_logprobs")
    found = [[[token for _, token, _ in meta[name]] for name in names] for meta in metas]
    return [(prompt, output) for prompt, output in found]


def check_greedy(model: Path, found: Texts) -> None:
    """Every token is the likeliest one of transformers' forward in float32, or about as likely."""
    network: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for prompt, output in found:
        with torch.inference_mode():
            logits = network(torch.tensor([prompt + output]), use_cache=False).logits[0]
        rows = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        chosen = rows.gather(1, torch.tensor(output)[:, None])[:, 0]
        assert float((rows.amax(-1) - chosen).max()) < TIE


def test_greedy_texts_are_those_of_the_cpu_up_to_ties(tiny_llama_path: Path) -> None:
    check_greedy(tiny_llama_path, texts(tiny_llama_path, device="cuda"))


def test_the_check_itself_on_the_cpu(tiny_llama_path: Path) -> None:
    found = texts(tiny_llama_path, device="cpu")
    check_greedy(tiny_llama_path, found)
    wrong = [(prompt, [*output[:-1], output[-1] ^ 1]) for prompt, output in found]
    with pytest.raises(AssertionError):
        check_greedy(tiny_llama_path, wrong)


def test_recorded_decodes_are_the_eager_ones(
    tiny_llama_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = texts(tiny_llama_path, device="cuda")
    monkeypatch.setattr(DecodeGraphs, "run", lambda *_: None)
    assert texts(tiny_llama_path, device="cuda") == recorded


@pytest.mark.parametrize("kv_dtype", ["bfloat16", "fp8"])
def test_constraints_hold(tiny_llama_path: Path, kv_dtype: str) -> None:
    @sgl.function
    def number(s: Any, prompt: str) -> None:
        s += prompt + sgl.gen("n", 12, regex="[0-9]{3}-[0-9]{2}", temperature=1.0)

    with Runtime(tiny_llama_path, device="cuda", kv_dtype=kv_dtype) as runtime:
        for state in number.run_batch([{"prompt": each} for each in PROMPTS], backend=runtime):
            assert len(state["n"]) == 6 and state["n"][3] == "-"


def test_the_summary_names_the_device(tiny_llama_path: Path) -> None:
    with Runtime(tiny_llama_path) as runtime:
        assert runtime.device == torch.device("cuda:0") and "on cuda:0" in runtime.summary
