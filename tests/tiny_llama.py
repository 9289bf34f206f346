"""A tiny random Llama in Hugging Face format, so that the real loader runs in tests in seconds.

Owns its shape, its weights (a fixed seed) and its tokenizer. The model knows nothing, which is the
hardest case for constraints; its weights are scaled so that attention is peaked and the logits are
spread, so a wrong page, position or mask changes the greedy token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

VOCAB_SIZE = 768
HIDDEN_SIZE = 64
INTERMEDIATE_SIZE = 128
NUM_LAYERS = 2
NUM_HEADS = 4
NUM_KV_HEADS = 2
HEAD_DIM = HIDDEN_SIZE // NUM_HEADS
CONTEXT_LENGTH = 2048

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_LICENSE = Path(__file__).parent.parent / "LICENSE"
# Standard deviations of queries and keys, and of logits.
_ATTENTION_SPREAD = 1.5
_LOGIT_SPREAD = 3.0

Weights = dict[str, npt.NDArray[np.float32]]


def write_tiny_llama(folder: Path, *, seed: int = 0) -> Path:
    """Write the model to `folder` (made if need be) and return it; a seed gives one model."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tiny_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    _write_json(folder / "config.json", tiny_config())
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": 1, "eos_token_id": [2, 0], "pad_token_id": 2},
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONTEXT_LENGTH,
            "clean_up_tokenization_spaces": False,
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            "unk_token": "<|endoftext|>",
            "chat_template": CHAT_TEMPLATE,
        },
    )
    return folder


def tiny_config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": INTERMEDIATE_SIZE,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": NUM_HEADS,
        "num_key_value_heads": NUM_KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT_LENGTH,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }


def tiny_weights(seed: int = 0) -> Weights:
    """Random weights under transformers' names."""
    random = np.random.default_rng(seed)

    def linear(rows: int, columns: int, spread: float = 1.0) -> npt.NDArray[np.float32]:
        scale = spread / math.sqrt(columns)
        return (random.standard_normal((rows, columns)) * scale).astype(np.float32)

    kv_size = NUM_KV_HEADS * HEAD_DIM
    ones = np.ones(HIDDEN_SIZE, dtype=np.float32)
    weights: Weights = {
        "model.embed_tokens.weight": linear(VOCAB_SIZE, HIDDEN_SIZE, math.sqrt(HIDDEN_SIZE)),
        "model.norm.weight": ones,
        "lm_head.weight": linear(VOCAB_SIZE, HIDDEN_SIZE, _LOGIT_SPREAD),
    }
    for layer in range(NUM_LAYERS):
        parts = {
            "input_layernorm": ones,
            "self_attn.q_proj": linear(HIDDEN_SIZE, HIDDEN_SIZE, _ATTENTION_SPREAD),
            "self_attn.k_proj": linear(kv_size, HIDDEN_SIZE, _ATTENTION_SPREAD),
            "self_attn.v_proj": linear(kv_size, HIDDEN_SIZE),
            "self_attn.o_proj": linear(HIDDEN_SIZE, HIDDEN_SIZE),
            "post_attention_layernorm": ones,
            "mlp.gate_proj": linear(INTERMEDIATE_SIZE, HIDDEN_SIZE),
            "mlp.up_proj": linear(INTERMEDIATE_SIZE, HIDDEN_SIZE),
            "mlp.down_proj": linear(HIDDEN_SIZE, INTERMEDIATE_SIZE),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": w for name, w in parts.items()}
    return weights


def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE over all 256 bytes, digits one by one, trained on text that the tests use."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE, "the corpus has merges enough"
    return tokenizer


def _corpus() -> Iterator[str]:
    yield from _LICENSE.read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(200):
        record = {"name": f"package-{number}", "tags": ["data", "web"], "stable": number % 2 == 0}
        yield json.dumps(record)
        yield json.dumps(record, indent=2)
        yield f"user: What is {number} + {number}?\nassistant: It is {2 * number}.\n"


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
