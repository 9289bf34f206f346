"""Tiny random models of many families, and transformers' own numbers for them.

Owns their configs and weights. Windows are shorter than the tests' prompts, caps and sinks are of
the size of the scores, so that an attention without them gives other tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from runtime.attention.torch import TorchAttention
from runtime.batch import Grant, build_batch
from runtime.cache.kv import KVPool
from runtime.model.base import Model
from runtime.sequence import Sequence
from tests.tiny_llama import VOCAB_SIZE

WINDOW = 12

TOKENS: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "pad_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SHAPE: dict[str, Any] = {
    **TOKENS,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
MIXED: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": WINDOW,
}
EXPERTS: dict[str, Any] = {
    "head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
}
LATENT: dict[str, Any] = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
LLAMA_3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}

LEAN: dict[str, hf.PreTrainedConfig] = {
    "llama": hf.LlamaConfig(**SHAPE),
    "llama, biases": hf.LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True),
    "llama 3, tied": hf.LlamaConfig(**SHAPE, rope_parameters=LLAMA_3, tie_word_embeddings=True),
    "mistral": hf.MistralConfig(**SHAPE, head_dim=16, sliding_window=None),
    "qwen2": hf.Qwen2Config(**SHAPE),
    "qwen2, yarn": hf.Qwen2Config(**SHAPE, rope_parameters=YARN),
    "qwen3": hf.Qwen3Config(**SHAPE, head_dim=16),
    "mistral, a window": hf.MistralConfig(**SHAPE, head_dim=16, sliding_window=WINDOW),
    "qwen2, windows": hf.Qwen2Config(
        **SHAPE, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
}
"""What the lean decoder runs."""

GENERAL: dict[str, hf.PreTrainedConfig] = {
    "gemma": hf.GemmaConfig(**SHAPE, head_dim=16),
    "gemma 2": hf.Gemma2Config(
        **SHAPE,
        **MIXED,
        head_dim=16,
        query_pre_attn_scalar=12,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
    ),
    "gemma 3": hf.Gemma3TextConfig(
        **SHAPE, **MIXED, head_dim=16, query_pre_attn_scalar=12, final_logit_softcapping=3.0
    ),
    "phi 3": hf.Phi3Config(**SHAPE, sliding_window=None),
    "phi 3, a window": hf.Phi3Config(**SHAPE, sliding_window=WINDOW),
    "gpt 2": hf.GPT2Config(**TOKENS, n_embd=48, n_head=6, n_layer=3, n_positions=512),
    "olmo 2": hf.Olmo2Config(**SHAPE),
    "olmo 3": hf.Olmo3Config(**SHAPE, **MIXED),
    "mixtral": hf.MixtralConfig(
        **SHAPE, num_local_experts=4, num_experts_per_tok=2, sliding_window=None
    ),
    "qwen 3, experts": hf.Qwen3MoeConfig(**SHAPE, **EXPERTS),
    "gpt oss": hf.GptOssConfig(**SHAPE, **MIXED, head_dim=16, num_local_experts=4),
    "granite": hf.GraniteConfig(
        **SHAPE, logits_scaling=8.0, embedding_multiplier=6.0, attention_multiplier=0.2
    ),
    "cohere 2": hf.Cohere2Config(**SHAPE, **MIXED, logit_scale=0.25),
    "deepseek 3": hf.DeepseekV3Config(
        **{**SHAPE, "num_key_value_heads": 6},
        **LATENT,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        first_k_dense_replace=1,
    ),
}
"""What transformers' own code runs over the engine's attention."""

FAMILIES = LEAN | GENERAL


def random_model(config: hf.PreTrainedConfig) -> Any:
    """A network with this config, of weights that spread its scores and logits."""
    torch.manual_seed(1)  # of the greedy outputs no step is a tie
    model: Any = hf.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    for name, weights in model.named_parameters():
        if weights.dim() >= 2:
            weights.data.normal_(std=1.5 * weights.shape[-1] ** -0.5)
        elif "norm" in name or "ln_" in name:
            weights.data += torch.empty_like(weights).uniform_(-0.5, 0.5)
        else:
            weights.data.normal_(std=0.5)
    return model


def logprobs_of(folder: Path, tokens: List[int]) -> Tensor:
    """transformers' own, in float32. [num_tokens, vocab_size]"""
    network: Any = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits: Tensor = network(torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.log_softmax(-1)


def in_pieces(model: Model, tokens: List[int], sizes: List[int]) -> Tensor:
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
            hidden = model.hidden(ids.long(), positions.long(), attention.plan(batch))
            found.append(model.logits(hidden))
        sequence.computed += size
    return torch.cat(found).log_softmax(-1)
