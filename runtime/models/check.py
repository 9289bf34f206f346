"""Whether a folder holds a whole model: what must be there is there, and can be read.

Owns what can be told in a moment, without the model's code and without reading its weights: the
JSON files parse, the headers of the safetensors files are whole and fit the files' sizes, and an
index names tensors that exist. Whether the weights fit the architecture is seen on loading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.models.errors import BrokenModelError, ModelNotFoundError

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
# Not every model has these, but one that is there is read on loading.
_OPTIONAL_FILES = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header, little-endian
_MAX_HEADER_BYTES = 100_000_000  # the library's own limit; a length beyond it is rubbish


def check_folder(folder: Path) -> None:
    """Raises ModelNotFoundError when files are missing, BrokenModelError when one is unreadable."""
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    missing += _missing_weights(folder)
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        missing.append("tokenizer.json")
    if missing:
        raise ModelNotFoundError(
            f"The folder {str(folder)!r} is not a model in Hugging Face format, it lacks"
            f" {', '.join(missing)}: copy what is missing there, or give another folder."
        )
    if not isinstance(_json_object(folder / "config.json").get("model_type"), str):
        raise _broken(folder / "config.json", "it names no model_type")
    if (folder / "tokenizer.json").is_file():
        tokenizer = _json_object(folder / "tokenizer.json")
        if not isinstance(tokenizer.get("model"), dict):
            raise _broken(folder / "tokenizer.json", "it describes no tokenizer")
    for name in _OPTIONAL_FILES:
        if (folder / name).is_file():
            _json_object(folder / name)
    _check_weights(folder)


def _missing_weights(folder: Path) -> list[str]:
    if (folder / _INDEX).is_file():
        shards = set(_weight_map(folder).values())
        return sorted(name for name in shards if not (folder / name).is_file())
    return [] if (folder / "model.safetensors").is_file() else ["model.safetensors"]


def _check_weights(folder: Path) -> None:
    if (folder / "model.safetensors").is_file():
        _tensor_names(folder / "model.safetensors")
    if not (folder / _INDEX).is_file():
        return
    weight_map = _weight_map(folder)
    in_file = {name: _tensor_names(folder / name) for name in sorted(set(weight_map.values()))}
    for tensor, name in weight_map.items():
        if tensor not in in_file[name]:
            raise _broken(
                folder / _INDEX, f"it has the tensor {tensor!r} in {name}, which is not so"
            )


def _weight_map(folder: Path) -> Mapping[str, str]:
    """Which tensor is in which file, as the index says."""
    weight_map = _json_object(folder / _INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _broken(folder / _INDEX, "it has no weight_map")
    # A path out of the folder is nothing that a model's index has to name.
    if not all(isinstance(name, str) and name == Path(name).name for name in weight_map.values()):
        raise _broken(folder / _INDEX, "its weight_map holds what is not the name of a file")
    return weight_map


def _tensor_names(path: Path) -> set[str]:
    """The tensors of a safetensors file whose header is whole and accounts for all its bytes."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            rest_bytes = size - _LENGTH_BYTES - header_bytes
            if rest_bytes < 0 or header_bytes > _MAX_HEADER_BYTES:
                raise _broken(path, f"it has {size:,} bytes and ends before its header does")
            header = _parsed_object(path, file.read(header_bytes))
    except OSError as error:
        raise _broken(path, f"it cannot be read ({error.strerror})") from error
    header.pop("__metadata__", None)
    try:
        data_bytes = max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
    except (TypeError, ValueError, LookupError) as error:
        raise _broken(path, "its header is not that of a safetensors file") from error
    if data_bytes != rest_bytes:
        expected = size - rest_bytes + data_bytes
        raise _broken(path, f"it has {size:,} bytes where its header accounts for {expected:,}")
    return set(header)


def _json_object(path: Path) -> dict[str, Any]:
    try:
        return _parsed_object(path, path.read_bytes())
    except OSError as error:
        raise _broken(path, f"it cannot be read ({error.strerror})") from error


def _parsed_object(path: Path, data: bytes) -> dict[str, Any]:
    try:
        # transformers reads these as UTF-8 and nothing else; json alone would guess.
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"its JSON cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise _broken(path, "its JSON is not an object")
    return found


def _broken(path: Path, fault: str) -> BrokenModelError:
    return BrokenModelError(
        f"The file {path.name!r} in the model folder {str(path.parent)!r} is damaged, {fault}: copy"
        " it there anew from where the model comes from, or give another model."
    )
