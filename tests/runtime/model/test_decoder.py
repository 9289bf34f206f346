"""The lean decoder against transformers' own code, for every family that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, PreTrainedConfig

from runtime import Runtime
from runtime.model.decoder import LeanModel, is_lean
from runtime.model.general import GeneralModel
from runtime.model.linear import Int8Linear
from runtime.model.load import load_model
from runtime.model.probe import AlonePlan
from sgdsl.errors import UsageError
from tests.runtime.model.conftest import WriteModel
from tests.runtime.model.tiny_models import LEAN, SHAPE, in_pieces, logprobs_of
from tests.tiny_llama import VOCAB_SIZE

OTHERS: dict[str, PreTrainedConfig] = {
    "another activation": LlamaConfig(**SHAPE, hidden_act="gelu"),
    "frequencies that follow the length": LlamaConfig(
        **SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
    ),
    "a part of a head that is rotated": LlamaConfig(
        **SHAPE, rope_parameters={"rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    ),
}


@pytest.mark.parametrize("family", LEAN)
def test_log_probabilities_are_those_of_transformers(family: str, write_model: WriteModel) -> None:
    folder = write_model(LEAN[family])
    lean, general = load_model(folder), load_model(folder, decoder="general")
    assert isinstance(lean, LeanModel)
    assert isinstance(general, GeneralModel)
    assert lean.shape == general.shape
    assert lean.attention_kinds == general.attention_kinds
    tokens = torch.randint(3, VOCAB_SIZE, (150,)).tolist()
    expected = logprobs_of(folder, tokens)
    sizes = [70, 1, 1, 30, *[1] * 48]
    for model in (lean, general):
        torch.testing.assert_close(in_pieces(model, tokens, sizes), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("decoder", ["auto", "general"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("needed", [[], [19], [4, 0, 4]])
def test_hidden_states_of_some_tokens_are_those_among_all(
    needed: list[int], dtype: str, decoder: str, write_model: WriteModel
) -> None:
    if (dtype, decoder) == ("int8", "general"):
        pytest.skip("there is no such model")
    model = load_model(write_model(LEAN["qwen3"]), dtype=dtype, decoder=decoder)
    tokens, positions = torch.randint(3, VOCAB_SIZE, (20,)), torch.arange(20)
    with torch.inference_mode():
        expected = model.hidden(tokens, positions, AlonePlan())[needed]
        found = model.hidden(tokens, positions, AlonePlan(), torch.tensor(needed, dtype=torch.long))
    torch.testing.assert_close(found, expected, atol=1e-5 if dtype == "float32" else 0.05, rtol=0)


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
    folder = write_model(LEAN[family])
    if (dtype, decoder) == ("int8", "general"):
        with pytest.raises(UsageError, match="dtype='int8' is for x86 processors and the families"):
            load_model(folder, dtype=dtype, decoder=decoder)
        return
    tokens = torch.randint(3, VOCAB_SIZE, (100,)).tolist()
    expected = logprobs_of(folder, tokens)
    found = in_pieces(load_model(folder, dtype=dtype, decoder=decoder), tokens, [60, *[1] * 40])
    loss = (expected.exp() * (expected - found)).sum(-1).mean()
    assert 0 < float(loss) < SMALL_LOSS[dtype]


def test_the_largest_sums_in_int8_are_exact() -> None:
    """Inputs and weights that are all as large as they can be: nothing is saturated on the way."""
    torch.manual_seed(0)
    weight = torch.randint(0, 2, (48, 576)) * 254.0 - 127
    x = torch.cat([torch.randint(-1, 2, (9, 576)).float(), weight[:3].sign(), -weight[:3].sign()])
    torch.testing.assert_close(Int8Linear(weight, None)(x), x @ weight.T, rtol=1e-6, atol=1e-3)


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
