"""The lean decoder against transformers' own code, for every family that it runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

import sgdsl as sgl
from runtime import Runtime
from runtime.attention.torch import TorchAttention
from runtime.batch import Grant, build_batch
from runtime.cache.kv import KVPool
from runtime.model.base import Model
from runtime.model.decoder import LeanModel, is_lean
from runtime.model.general import GeneralModel
from runtime.model.linear import Int8Linear
from runtime.model.load import load_model
from runtime.sequence import Sequence
from sgdsl.errors import UsageError
from tests.tiny_llama import VOCAB_SIZE

SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LONG_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0}
YARN["original_max_position_embeddings"] = 128
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "llama, biases": LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True),
    "llama 3, tied": LlamaConfig(**SHAPE, rope_parameters=LONG_ROPE, tie_word_embeddings=True),
    "mistral": MistralConfig(**SHAPE, head_dim=16, sliding_window=None),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen2, yarn": Qwen2Config(**SHAPE, rope_parameters=YARN),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16),
}
OTHERS: dict[str, PreTrainedConfig] = {
    "another activation": LlamaConfig(**SHAPE, hidden_act="gelu"),
    "a window": MistralConfig(**SHAPE, sliding_window=64),
    "a window in some layers": Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=64, max_window_layers=1
    ),
    "frequencies that follow the length": LlamaConfig(
        **SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    ),
    "a part of a head that is rotated": LlamaConfig(
        **SHAPE, rope_parameters={"rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    ),
}

WriteModel = Callable[[PreTrainedConfig], Path]


@pytest.fixture
def write_model(tiny_llama_path: Path, tmp_path: Path) -> WriteModel:
    """A folder with this config, random weights and the tiny tokenizer."""

    def write(config: PreTrainedConfig) -> Path:
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        for name, weights in model.named_parameters():
            if weights.dim() == 2:
                weights.data.normal_(std=1.5 * weights.shape[1] ** -0.5)
            elif "norm" in name:
                weights.data.uniform_(0.5, 1.5)
            else:
                weights.data.normal_(std=0.5)
        folder = shutil.copytree(tiny_llama_path, tmp_path / "model")
        model.save_pretrained(folder)
        return folder

    return write


def logprobs_of(folder: Path, tokens: list[int]) -> Tensor:
    """transformers' own, in float32. [num_tokens, vocab_size]"""
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = network(torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.log_softmax(-1)


def in_pieces(model: Model, tokens: list[int], sizes: list[int]) -> Tensor:
    """Log-probabilities after every token, computed in chunks of these sizes over scattered pages
    of 4. [num_tokens, vocab_size]
    """
    shape = model.shape
    pool = KVPool(
        num_layers=shape.num_layers,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        num_slots=256,
    )
    attention = TorchAttention(pool, num_heads=shape.num_heads)
    sequence = Sequence(tokens)
    sequence.pages = [int(page) for page in torch.randperm(64)[: -(-len(tokens) // 4)]]
    found = []
    for size in sizes:
        batch = build_batch([Grant(sequence, sequence.computed, size)], page_size=4)
        ids, positions = torch.from_numpy(batch.token_ids), torch.from_numpy(batch.positions)
        with torch.inference_mode():
            found.append(
                model.logits(model.hidden(ids.long(), positions.long(), attention.plan(batch)))
            )
        sequence.computed += size
    return torch.cat(found).log_softmax(-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_those_of_transformers(family: str, write_model: WriteModel) -> None:
    folder = write_model(FAMILIES[family])
    lean, general = load_model(folder), load_model(folder, decoder="general")
    assert isinstance(lean, LeanModel)
    assert isinstance(general, GeneralModel)
    assert lean.shape == general.shape
    tokens = torch.randint(3, VOCAB_SIZE, (150,)).tolist()
    expected = logprobs_of(folder, tokens)
    sizes = [70, 1, 1, 30, *[1] * 48]
    for model in (lean, general):
        torch.testing.assert_close(in_pieces(model, tokens, sizes), expected, atol=1e-4, rtol=0)


@sgl.function
def complete(s: sgl.ProgramState, prompt: str) -> None:
    s += prompt + sgl.gen(
        "out", 20, temperature=0.0, healing=False, return_logprob=True, ignore_eos=True
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_output_is_transformers_token_for_token(
    family: str, write_model: WriteModel
) -> None:
    folder = write_model(FAMILIES[family])
    prompts = ["the license of this work " * count + "is" for count in (1, 2, 5, 9)]
    prompts += ["contributor", "a", prompts[2] + " the"]
    with Runtime(folder, kv_bytes=1 << 20, page_size=4, token_budget=24, max_running=6) as runtime:
        encoded = [runtime.tokenizer.encode(prompt) for prompt in prompts]
        states = complete.run_batch([{"prompt": prompt} for prompt in prompts], backend=runtime)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network.generation_config.eos_token_id = None
    for state, tokens in zip(states, encoded, strict=True):
        out = network.generate(torch.tensor([tokens]), max_new_tokens=20, do_sample=False)
        found = state.get_meta_info("out")["output_token_logprobs"]
        assert [token for _, token, _ in found] == out[0, len(tokens) :].tolist()


@pytest.mark.parametrize("kind", OTHERS)
def test_what_it_does_not_compute_is_left_to_transformers(kind: str) -> None:
    assert not is_lean(OTHERS[kind])


def test_a_decoder_that_there_is_not_is_refused(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        Runtime(tiny_llama_path, decoder="fast")
    assert str(caught.value) == "decoder='fast': it must be one of 'auto', 'general'"


SMALL_LOSS = {"bfloat16": 0.02, "int8": 0.02}
"""Kullback-Leibler divergence from float32, nats per token; uniform noise would be some 3."""


@pytest.mark.parametrize("decoder", ["auto", "general"])
@pytest.mark.parametrize("family", ["llama, biases", "qwen3"])
@pytest.mark.parametrize("dtype", SMALL_LOSS)
def test_smaller_weights_lose_little(
    dtype: str, family: str, decoder: str, write_model: WriteModel
) -> None:
    folder = write_model(FAMILIES[family])
    if (dtype, decoder) == ("int8", "general"):
        with pytest.raises(UsageError, match="dtype='int8' is for x86 processors and the families"):
            load_model(folder, dtype=dtype, decoder=decoder)
        return
    tokens = torch.randint(3, VOCAB_SIZE, (100,)).tolist()
    expected = logprobs_of(folder, tokens)
    found = in_pieces(load_model(folder, dtype=dtype, decoder=decoder), tokens, [60, *[1] * 40])
    loss = (expected.exp() * (expected - found)).sum(-1).mean()
    assert 0 < float(loss) < SMALL_LOSS[dtype]


@pytest.mark.parametrize("mix", [False, True])
def test_a_row_in_int8_is_bit_for_bit_the_same_in_any_batch(mix: bool) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(40, 192), torch.randn(40)
    x = torch.randn(33, 192) * torch.rand(33, 1) * 100
    x[3, 7] = 5_000.0
    linear = Int8Linear(weight, bias, mix=mix)
    together = linear(x)
    for index in range(33):
        assert torch.equal(linear(x[index : index + 1])[0], together[index])
    expected = x @ weight.T + bias
    assert float((together - expected).norm() / expected.norm()) < (0.04 if mix else 0.1)
    assert torch.equal(linear(torch.zeros(1, 192))[0], bias)
