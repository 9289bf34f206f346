"""What does not fit together in a model's folder is refused on loading, in one sentence of ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf
from safetensors.numpy import load_file, save_file
from transformers.utils import logging

from runtime import Runtime, cli
from runtime.errors import UnsupportedModelError
from runtime.model.load import load_model, load_tokenizer
from runtime.models import BrokenModelError
from tests.runtime.model.conftest import WriteModel
from tests.tiny_llama import HIDDEN_SIZE, VOCAB_SIZE, Weights


@pytest.fixture
def folder(tiny_llama_path: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_llama_path, tmp_path / "copy")


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def reweigh(folder: Path, change: Callable[[Weights], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(folder: Path) -> str:
    with pytest.raises(BrokenModelError) as caught:
        Runtime(folder, kv_bytes=1 << 20)
    message = str(caught.value)
    assert repr(str(folder)) in message
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_missing_weights_are_not_drawn_at_random(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reweigh(folder, lambda weights: weights.pop("model.layers.1.mlp.down_proj.weight"))
    verbosity = logging.get_verbosity()
    assert "model.layers.1.mlp.down_proj.weight is missing" in refusal(folder)
    assert logging.get_verbosity() == verbosity
    assert capfd.readouterr() == ("", "")


def test_weights_that_the_model_has_no_place_for_are_refused(folder: Path) -> None:
    extra = np.ones(HIDDEN_SIZE, dtype=np.float32)
    reweigh(folder, lambda weights: weights.update({"model.layers.1.norm.bias": extra}))
    assert "model.layers.1.norm.bias is too many" in refusal(folder)


def test_a_config_of_another_depth_is_refused(folder: Path) -> None:
    rewrite(folder / "config.json", num_hidden_layers=3)
    assert "model.layers.2.mlp.down_proj.weight" in (message := refusal(folder))
    assert "and 6 more are missing" in message


def test_shapes_that_do_not_fit_are_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rewrite(folder / "config.json", intermediate_size=96)
    assert "model.layers.0.mlp.down_proj.weight ([64, 128] instead of [64, 96])" in refusal(folder)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("stored", [True, False])
def test_tied_weights_may_be_stored_once_or_twice(folder: Path, stored: bool) -> None:
    rewrite(folder / "config.json", tie_word_embeddings=True)

    def tie(weights: Weights) -> None:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
        if not stored:
            del weights["lm_head.weight"]

    reweigh(folder, tie)
    assert load_model(folder).shape.vocab_size == VOCAB_SIZE


def test_buffers_of_old_versions_are_harmless(folder: Path) -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    reweigh(folder, lambda weights: weights.update({name: np.ones(8, dtype=np.float32)}))
    assert load_model(folder).shape.vocab_size == VOCAB_SIZE


CONFIGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown type": ("config.json", {"model_type": "nonsense"}, "has the model_type 'nonsense', "),
    "no decoder": ("config.json", {"model_type": "t5"}, "'t5', which is no causal language model"),
    "a word for a size": ("config.json", {"hidden_size": "big"}, "fails on config.json"),
    "no heads": ("config.json", {"num_attention_heads": 0}, "fails on config.json"),
    "half a tokenizer": ("tokenizer.json", {"added_tokens": 5}, "fails on the tokenizer"),
    "a stop beyond": ("generation_config.json", {"eos_token_id": VOCAB_SIZE}, "token 768"),
    "a stop below": ("generation_config.json", {"eos_token_id": -1}, "token -1"),
    "a word for a stop": ("generation_config.json", {"eos_token_id": ["</s>"]}, "token '</s>'"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_files_that_parse_and_make_no_model_are_one_sentence_from_the_runtime_and_the_command(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, changes, words = CONFIGS[kind]
    rewrite(folder / name, **changes)
    message = refusal(folder)
    assert words in message
    assert cli.main(["pull", "--model", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"sgdsl: {message}\n")


def test_a_fault_in_the_model_s_code_names_its_kind(folder: Path) -> None:
    rewrite(folder / "config.json", hidden_act="nonsense")
    assert "transformers fails on the weights with KeyError ('nonsense')" in refusal(folder)


def test_the_tokenizer_of_a_whole_folder_has_all_its_stops(folder: Path) -> None:
    assert load_tokenizer(folder, vocab_size=VOCAB_SIZE).eos_token_ids == {0, 2}
    rewrite(folder / "generation_config.json", eos_token_id=None)
    assert load_tokenizer(folder, vocab_size=VOCAB_SIZE).eos_token_ids == {2}


SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 64,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BESIDE = "take no attention from AttentionInterface"
REFUSED: dict[str, tuple[hf.PreTrainedConfig, str]] = {
    "a state space": (
        hf.MambaConfig(hidden_size=64, num_hidden_layers=2, vocab_size=VOCAB_SIZE),
        f"MambaForCausalLM has layers that {BESIDE}",
    ),
    "a linear attention in some layers": (
        hf.Qwen3NextConfig(
            **SHAPE, num_experts=4, num_experts_per_tok=2, layer_types=["linear_attention"] * 2
        ),
        f"Qwen3NextForCausalLM has layers that {BESIDE}",
    ),
    "a convolution in some layers": (
        hf.Lfm2Config(**SHAPE, layer_types=["conv", "full_attention"]),
        f"Lfm2ForCausalLM has layers that {BESIDE}",
    ),
    "a recurrence": (
        hf.RwkvConfig(hidden_size=64, num_hidden_layers=2, vocab_size=VOCAB_SIZE),
        f"RwkvForCausalLM has layers that {BESIDE}",
    ),
    "linear biases": (
        hf.BloomConfig(hidden_size=64, n_layer=2, n_head=4, vocab_size=VOCAB_SIZE),
        f"BloomForCausalLM has layers that {BESIDE}",
    ),
    "biases that it computes": (
        hf.DogeConfig(**SHAPE),
        "DogeForCausalLM adds biases of its own to its scores",
    ),
    "layers in another place": (
        hf.Llama4TextConfig(**SHAPE),
        "Llama4ForCausalLM keeps its layers where no other decoder does",
    ),
    "two attentions in a layer": (
        hf.DiffLlamaConfig(**SHAPE),
        "DiffLlamaForCausalLM has several attentions in one layer",
    ),
    "attention to later tokens": (
        hf.BertConfig(**SHAPE),
        "BertLMHeadModel lets its tokens attend to later ones",
    ),
    "positions of its own": (
        hf.BartConfig(d_model=64, vocab_size=VOCAB_SIZE),
        "BartForCausalLM lets tokens meet outside of its attention, or ignores positions",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_family_that_the_engine_cannot_run_is_refused_at_load(
    kind: str, tmp_path: Path, tiny_llama_path: Path
) -> None:
    config, words = REFUSED[kind]
    model = hf.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_llama_path / name, tmp_path / name)
    with pytest.raises(UnsupportedModelError, match=words) as caught:
        Runtime(tmp_path, kv_bytes=1 << 20)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("choose a model of another family")


def test_an_encoder_with_a_decoder_is_refused_before_its_weights_are_read(folder: Path) -> None:
    rewrite(folder / "config.json", model_type="bart", is_encoder_decoder=True)
    with pytest.raises(UnsupportedModelError, match="the model_type 'bart', an encoder with a"):
        load_model(folder)


def test_where_frequencies_would_change_the_context_ends(write_model: WriteModel) -> None:
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    rope = {"rope_type": "longrope", "rope_theta": 10_000.0}
    config = hf.Phi3Config(
        **SHAPE, original_max_position_embeddings=32, rope_parameters=rope | factors
    )
    assert load_model(write_model(config)).shape.context_len == 32
