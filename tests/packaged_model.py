"""A packaged model in small: a GGUF file of the tiny Llama, in a wheel, in an index on the disk.

Owns the files that `runtime.models` fetches in tests without a network. The GGUF file is written
the way llama.cpp's converter writes one, with the query and key rows reordered.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, TokenType

from runtime.models.catalog import PackagedModel
from tests import tiny_llama

PACKAGE = "sgdsl-tiny-model"
VERSION = "1.0"
_GGUF_PATH = "tiny/tiny.gguf"
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_index(folder: Path) -> PackagedModel:
    """Write a wheel with the tiny model to `folder`, which pip takes as PIP_FIND_LINKS."""
    folder.mkdir(parents=True, exist_ok=True)
    gguf = write_tiny_gguf(folder / "tiny.gguf")
    info = f"{PACKAGE.replace('-', '_')}-{VERSION}.dist-info"
    wheel = folder / f"{PACKAGE.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, _GGUF_PATH)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    gguf.unlink()
    content = wheel.read_bytes()
    return PackagedModel(
        name="tiny",
        package=PACKAGE,
        version=VERSION,
        wheel_sha256=hashlib.sha256(content).hexdigest(),
        wheel_bytes=len(content),
        gguf_path=_GGUF_PATH,
        folder_bytes=2_000_000,
        stop_token_ids=(2, 0),
    )


def write_tiny_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    pre_tokenizer: str = "smollm",
    extra_tensor: str | None = None,
    left_out: str | None = None,
) -> Path:
    """Write the tiny Llama as llama.cpp would; the options make files that are not convertible."""
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(tiny_llama.CONTEXT_LENGTH)
    writer.add_embedding_length(tiny_llama.HIDDEN_SIZE)
    writer.add_feed_forward_length(tiny_llama.INTERMEDIATE_SIZE)
    writer.add_block_count(tiny_llama.NUM_LAYERS)
    writer.add_head_count(tiny_llama.NUM_HEADS)
    writer.add_head_count_kv(tiny_llama.NUM_KV_HEADS)
    writer.add_rope_dimension_count(tiny_llama.HEAD_DIM)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_tokenizer(writer, pre_tokenizer)
    for name, weights in tiny_llama.tiny_weights().items():
        if name != left_out:
            writer.add_tensor(_gguf_name(name), _permuted(name, weights))
    if extra_tensor is not None:
        writer.add_tensor(extra_tensor, np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: GGUFWriter, pre_tokenizer: str) -> None:
    model = json.loads(tiny_llama.tiny_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    special = tiny_llama.SPECIAL_TOKENS
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types(
        [TokenType.CONTROL if token in special else TokenType.NORMAL for token in tokens]
    )
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(tiny_llama.CHAT_TEMPLATE)


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[part]}.weight"


def _permuted(name: str, weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """As in llama.cpp's convert_hf_to_gguf.py, LlamaModel.permute."""
    heads = {"q_proj": tiny_llama.NUM_HEADS, "k_proj": tiny_llama.NUM_KV_HEADS}
    for part, num_heads in heads.items():
        if f".{part}." in name:
            rows, columns = weights.shape
            halves = weights.reshape(num_heads, 2, rows // num_heads // 2, columns)
            return halves.swapaxes(1, 2).reshape(rows, columns)
    return weights
