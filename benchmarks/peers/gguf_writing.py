"""The model as llama.cpp reads it: GGUF with weights in q8_0, made of its safetensors, once.

Runs in the environment of llama.cpp, where the package gguf is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def quantised(model: Path, folder: Path) -> Path:
    """The model as GGUF with weights in q8_0; made when it is not there yet."""
    path = folder / f"q8_0-{model.name}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        write_gguf(model, unfinished)
        unfinished.rename(path)
    return path


def write_gguf(model: Path, path: Path) -> None:
    """Of a Llama with byte-level BPE, as llama.cpp's own converter names and orders its parts."""
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "llama", "this converter knows Llamas only"
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_tokenizer(writer, model)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    kind = gguf.GGMLQuantizationType
    for name, loaded in load_file(model / "model.safetensors").items():
        num_heads = heads if ".q_proj." in name else kv_heads if ".k_proj." in name else None
        weights = loaded.astype(np.float32)
        weights = weights if num_heads is None else _permuted(weights, num_heads)
        target = names.get_name(name, try_suffixes=(".weight",))
        if weights.ndim == 1:
            writer.add_tensor(target, weights)
        else:
            packed = gguf.quants.quantize(weights, kind.Q8_0)
            writer.add_tensor(target, packed, raw_dtype=kind.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, model: Path) -> None:
    read = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    vocab, added = read["model"]["vocab"], {each["content"] for each in read["added_tokens"]}
    tokens = sorted(vocab, key=vocab.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in added else 1 for token in tokens])  # control, normal
    merges = read["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def _permuted(weights: Any, num_heads: int) -> Any:
    """As in llama.cpp's convert_hf_to_gguf.py, LlamaModel.permute."""
    rows, columns = weights.shape
    halves = weights.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)
