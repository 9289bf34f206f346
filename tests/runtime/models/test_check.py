"""A folder whose files are missing or damaged is refused by name, before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runtime import Runtime, cli
from runtime.models import BrokenModelError, ModelNotFoundError, resolve_model

INDEX = "model.safetensors.index.json"
DAMAGES: dict[str, tuple[str, bytes, str]] = {
    "no JSON": ("config.json", b"{garbage", "config.json"),
    "JSON of a list": ("config.json", b"[]", "not an object"),
    "no model_type": ("config.json", b"{}", "model_type"),
    "not UTF-8": ("config.json", b'{"model_type": "\xe9"}', "utf-8"),
    "too deep": ("config.json", b"[" * 100_000, "recursion"),
    "half a tokenizer": ("tokenizer.json", b"{", "tokenizer.json"),
    "no tokenizer": ("tokenizer.json", b"{}", "describes no tokenizer"),
    "half tokenizer settings": ("tokenizer_config.json", b"{", "tokenizer_config.json"),
    "half generation settings": ("generation_config.json", b"{", "generation_config.json"),
    "empty weights": ("model.safetensors", b"", "has 0 bytes"),
    "a short length": ("model.safetensors", b"1234", "has 4 bytes"),
    "a header cut off": ("model.safetensors", (99).to_bytes(8, "little") + b"{", "has 9 bytes"),
    "an absurd header": ("model.safetensors", b"\xff" * 20, "has 20 bytes"),
    "a header of rubbish": ("model.safetensors", (2).to_bytes(8, "little") + b"}{", "JSON"),
    "no offsets": ("model.safetensors", (8).to_bytes(8, "little") + b'{"a": 1}', "not that of"),
    "half an index": (INDEX, b"{", "index.json"),
    "an empty index": (INDEX, b"{}", "has no weight_map"),
    "an index of numbers": (INDEX, b'{"weight_map": {"a": 1}}', "not the name of a file"),
    "an index that leaves": (INDEX, b'{"weight_map": {"a": "../a"}}', "not the name of a file"),
    "an index of others": (INDEX, b'{"weight_map": {"a": "model.safetensors"}}', "tensor 'a'"),
}


@pytest.fixture
def folder(tiny_llama_path: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_llama_path, tmp_path / "copy")


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_one_sentence_from_the_runtime_and_the_command(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, data, words = DAMAGES[kind]
    (folder / name).write_bytes(data)
    with pytest.raises(BrokenModelError) as caught:
        Runtime(folder)
    message = str(caught.value)
    assert message.startswith(f"The file {name!r} in the model folder {str(folder)!r} is damaged, ")
    assert words in message
    assert message.endswith("from where the model comes from, or give another model.")
    assert cli.main(["pull", "--model", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"sgdsl: {message}\n")


def test_weights_that_were_cut_off_are_told_by_their_size(folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2):
        weights.write_bytes(whole[:size])
        with pytest.raises(BrokenModelError, match=f"{size:,} bytes where .* {len(whole):,}:"):
            resolve_model(folder)


def test_sharded_weights_are_checked_one_by_one(folder: Path) -> None:
    one, two = "model-1-of-2.safetensors", "model-2-of-2.safetensors"
    (folder / "model.safetensors").rename(folder / one)
    shards = {"lm_head.weight": one, "model.norm.weight": two}
    (folder / INDEX).write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(ModelNotFoundError, match=rf"it lacks {two}:"):
        resolve_model(folder)
    (folder / two).touch()
    with pytest.raises(BrokenModelError, match=rf"The file '{two}' .* has 0 bytes"):
        resolve_model(folder)
    shutil.copy(folder / one, folder / two)
    assert resolve_model(folder) == folder


def test_weights_under_another_name_are_not_found(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    with pytest.raises(ModelNotFoundError, match=r"it lacks model\.safetensors:"):
        resolve_model(folder)
