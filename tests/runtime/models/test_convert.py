"""GGUF to Hugging Face format, on a tiny file that is written as llama.cpp would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from runtime.models.convert import convert_gguf
from runtime.models.errors import ModelError
from runtime.models.progress import ProgressReport
from tests import tiny_llama
from tests.packaged_model import write_tiny_gguf

QUIET = ProgressReport(visible=False)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    source = write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    convert_gguf(source, folder, stop_token_ids=(2, 0), progress=QUIET)
    return folder


def test_weights_come_back_bit_for_bit(converted: Path) -> None:
    expected = tiny_llama.tiny_weights()
    found = load_file(converted / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, weights in expected.items():
        np.testing.assert_array_equal(found[name], weights, err_msg=name)


def test_config_comes_back(converted: Path) -> None:
    found = json.loads((converted / "config.json").read_text())
    assert {name: found[name] for name in tiny_llama.tiny_config()} == tiny_llama.tiny_config()


def test_generation_config_has_every_stop_token(converted: Path) -> None:
    found = json.loads((converted / "generation_config.json").read_text())
    assert found["eos_token_id"] == [2, 0]


def test_chat_template_comes_back(converted: Path) -> None:
    found = json.loads((converted / "tokenizer_config.json").read_text())
    assert found["chat_template"] == tiny_llama.CHAT_TEMPLATE
    assert (found["bos_token"], found["eos_token"]) == ("<|im_start|>", "<|im_end|>")


@pytest.mark.parametrize(
    "text",
    [
        "Licensed under the Apache License, Version 2.0",
        "  12 apples\n\n 3.5\t42",
        "naïve 日本語 🤖\x00\xff",
        "<|im_start|>user\nhi<|im_end|>",
        "",
    ],
)
def test_tokenizer_comes_back(converted: Path, text: str) -> None:
    found = Tokenizer.from_file(str(converted / "tokenizer.json"))
    expected = tiny_llama.tiny_tokenizer().encode(text)
    assert found.encode(text).ids == expected.ids
    assert found.decode(expected.ids, skip_special_tokens=False) == text


def test_transformers_loads_the_folder(converted: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    load: Any = AutoModelForCausalLM.from_pretrained
    model, loading = load(converted, output_loading_info=True)
    assert not any(loading.values()), loading
    assert model.generation_config.eos_token_id == [2, 0]
    tokenizer = AutoTokenizer.from_pretrained(converted)
    # AutoTokenizer likes to put a class of its own in place of tokenizer.json's pre-tokenizer.
    assert "Digits" in repr(tokenizer.backend_tokenizer.pre_tokenizer)
    assert tokenizer("a").input_ids == tiny_llama.tiny_tokenizer().encode("a").ids


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", architecture="qwen2")
    with pytest.raises(ModelError, match=r"architecture 'qwen2'; only 'llama'"):
        convert_gguf(source, tmp_path, stop_token_ids=(), progress=QUIET)


def test_an_unknown_pre_tokenizer_is_refused(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", pre_tokenizer="tekken")
    with pytest.raises(ModelError, match=r"'tekken'.*only 'gpt2' with one of"):
        convert_gguf(source, tmp_path, stop_token_ids=(), progress=QUIET)


def test_an_unknown_tensor_is_refused(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "tiny.gguf", extra_tensor="blk.0.attn_q.bias")
    with pytest.raises(ModelError, match=r"'blk\.0\.attn_q\.bias'"):
        convert_gguf(source, tmp_path, stop_token_ids=(), progress=QUIET)


def test_a_missing_tensor_is_refused(tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    source = write_tiny_gguf(tmp_path / "tiny.gguf", left_out=name)
    with pytest.raises(ModelError, match=name):
        convert_gguf(source, tmp_path, stop_token_ids=(), progress=QUIET)


def test_a_file_that_is_not_gguf_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "some.gguf"
    source.write_bytes(b"PK" * 1000)
    with pytest.raises(ModelError, match=r"'some.gguf' is not a readable GGUF file"):
        convert_gguf(source, tmp_path, stop_token_ids=(), progress=QUIET)
