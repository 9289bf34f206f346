"""Turns a Llama-like GGUF file into a folder in Hugging Face format, with float32 weights.

Owns the mapping from llama.cpp's names and layouts to transformers'. Must not know where the file
came from, or where the folder will live. Anything in the file that it does not understand is an
error: a model that is nearly right is worse than none.

Source: the GGUF specification (ggml-org/ggml, docs/gguf.md) and llama.cpp's convert_hf_to_gguf.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.models.convert_tokenizer import write_tokenizer
from runtime.models.errors import ModelError
from runtime.models.progress import ProgressReport

# Part of a converted folder's identity: raise it when the output of this module changes.
CONVERSION_VERSION = 1

Weights = npt.NDArray[np.float32]

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_TENSOR = re.compile(r"blk\.(?P<layer>\d+)\.(?P<part>\w+)\.weight")


def convert_gguf(
    source: Path,
    folder: Path,
    *,
    stop_token_ids: Iterable[int],
    progress: ProgressReport,
) -> None:
    """Write the config, weights, tokenizer and generation settings of `source` to `folder`.

    `stop_token_ids` go to generation_config.json. Raises ModelError when the file is not a
    Llama-like model with a byte-level BPE tokenizer.
    """
    # Imported here: it costs a quarter of a second, and only a first run converts.
    from gguf import GGUFReader

    try:
        reader = GGUFReader(source)
    except ValueError as error:
        raise ModelError(f"{source.name!r} is not a readable GGUF file: {error}.") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields.get("general.architecture") != "llama":
        raise ModelError(
            f"{source.name!r} holds a model of architecture {fields.get('general.architecture')!r};"
            " only 'llama' can be converted."
        )
    config = _config(fields, tied="output.weight" not in {t.name for t in reader.tensors})
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", _generation_config(fields, stop_token_ids))
    write_tokenizer(fields, folder)
    _write_weights(reader.tensors, folder / "model.safetensors", config=config, progress=progress)


def _config(fields: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    num_heads = fields["llama.attention.head_count"]
    hidden_size = fields["llama.embedding_length"]
    if any(name.startswith("llama.rope.scaling") for name in fields):
        raise ModelError("The GGUF file scales its rotary positions; this is not supported.")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": hidden_size,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": num_heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", num_heads),
        "head_dim": fields.get("llama.rope.dimension_count", hidden_size // num_heads),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": fields["llama.context_length"],
        # As float32, 1e-5 comes back as 9.99999974e-06: its shortest text is what was meant.
        "rms_norm_eps": float(str(np.float32(fields["llama.attention.layer_norm_rms_epsilon"]))),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": float(fields.get("llama.rope.freq_base", 10_000.0)),
        },
        "tie_word_embeddings": tied,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields.get("tokenizer.ggml.padding_token_id"),
    }


def _generation_config(fields: Mapping[str, Any], stop_token_ids: Iterable[int]) -> dict[str, Any]:
    return {
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": list(stop_token_ids),
        "pad_token_id": fields.get("tokenizer.ggml.padding_token_id"),
    }


def _write_weights(
    tensors: Iterable[Any], path: Path, *, config: Mapping[str, Any], progress: ProgressReport
) -> None:
    from gguf import dequantize
    from safetensors.numpy import save_file

    tensors = list(tensors)
    total_bytes = sum(4 * int(np.prod(tensor.shape)) for tensor in tensors)
    weights: dict[str, Weights] = {}
    done = 0
    with progress.stage("Converting", total_bytes=total_bytes) as report:
        for tensor in tensors:
            name = _hugging_face_name(tensor.name)
            values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
            values = values.reshape([int(size) for size in reversed(tensor.shape)])
            weights[name] = np.ascontiguousarray(_unpermuted(name, values, config))
            done += values.nbytes
            report(done)
        _check_complete(weights, config)
        # transformers refuses a file that does not say which framework's layout it has.
        save_file(weights, path, metadata={"format": "pt"})
        path.chmod(0o644)  # it writes for the owner alone; the folder may be shared


def _hugging_face_name(name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    match = _LAYER_TENSOR.fullmatch(name)
    if match is None or match["part"] not in _LAYER_NAMES:
        raise ModelError(f"The GGUF file has a tensor {name!r} that a plain Llama does not have.")
    return f"model.layers.{match['layer']}.{_LAYER_NAMES[match['part']]}.weight"


def _unpermuted(name: str, values: Weights, config: Mapping[str, Any]) -> Weights:
    """Undo llama.cpp's reordering of the query and key rows of each head.

    It pairs row 2i with 2i+1 for the rotation, transformers pairs i with i + head_dim/2.
    """
    if name.endswith("q_proj.weight"):
        num_heads = config["num_attention_heads"]
    elif name.endswith("k_proj.weight"):
        num_heads = config["num_key_value_heads"]
    else:
        return values
    rows, columns = values.shape
    paired = values.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return paired.swapaxes(1, 2).reshape(rows, columns)


def _check_complete(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> None:
    layers = range(config["num_hidden_layers"])
    expected = {f"model.layers.{i}.{part}.weight" for i in layers for part in _LAYER_NAMES.values()}
    expected |= set(_TOP_NAMES.values())
    if config["tie_word_embeddings"]:
        expected.remove("lm_head.weight")
    if weights.keys() != expected:
        raise ModelError(
            "The GGUF file does not hold the tensors of a Llama:"
            f" {sorted(weights.keys() ^ expected)} are missing or too many."
        )


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
