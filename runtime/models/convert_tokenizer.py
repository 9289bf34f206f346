"""Builds the tokenizer files of a Hugging Face folder from a GGUF file's fields.

Owns the reading of `tokenizer.*` fields for GPT-2-style byte-level BPE. Must not know of weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from runtime.models.errors import ModelError

_CONTROL = 3  # gguf.TokenType.CONTROL
_USER_DEFINED = 4

# How each of llama.cpp's pre-tokenizers cuts text before BPE (llama-vocab.cpp). transformers' own
# GGUF loader does not know `smollm` and leaves out the cut at digits, which differs from what the
# model was trained with where white space meets a number.
_PRE_TOKENIZERS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    ),
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
}


def write_tokenizer(fields: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json (with the chat template) to `folder`.

    Raises ModelError when the fields describe another kind of tokenizer.
    """
    build_tokenizer(fields).save(str(folder / "tokenizer.json"))
    text = json.dumps(_tokenizer_config(fields), indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def build_tokenizer(fields: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that the GGUF fields describe; ids are positions in `tokenizer.ggml.tokens`."""
    kind = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind[0] != "gpt2" or kind[1] not in _PRE_TOKENIZERS:
        raise ModelError(
            f"The GGUF file has a tokenizer of kind {kind!r};"
            f" only 'gpt2' with one of {sorted(_PRE_TOKENIZERS)} can be converted."
        )
    if fields.get("tokenizer.ggml.add_bos_token") or fields.get("tokenizer.ggml.add_space_prefix"):
        raise ModelError("The GGUF file's tokenizer adds text of its own; this is not supported.")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges, fuse_unk=False))
    tokenizer.pre_tokenizer = _PRE_TOKENIZERS[kind[1]]()
    tokenizer.decoder = decoders.ByteLevel()
    types = dict(zip(tokens, fields["tokenizer.ggml.token_type"], strict=True))
    tokenizer.add_special_tokens(_added(types, _CONTROL, special=True))
    tokenizer.add_tokens(_added(types, _USER_DEFINED, special=False))
    assert tokenizer.get_vocab_size() == len(tokens), "added tokens are already in the vocabulary"
    return tokenizer


def _added(types: Mapping[str, int], kind: int, *, special: bool) -> list[AddedToken]:
    names = [token for token, token_type in types.items() if token_type == kind]
    return [AddedToken(name, special=special, normalized=False) for name in names]


def _tokenizer_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        # Takes tokenizer.json as it is; a named class would put its own pre-tokenizer in place.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
    }
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    for role, name in roles.items():
        token_id = fields.get(f"tokenizer.ggml.{name}_token_id")
        if token_id is not None:
            config[f"{role}_token"] = fields["tokenizer.ggml.tokens"][token_id]
    if "tokenizer.chat_template" in fields:
        config["chat_template"] = fields["tokenizer.chat_template"]
    return config
