"""Vocabularies to measure in: a model's own, Tekken's when it is there, and synthetic larger ones.

It must not know what is measured.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.engine_runs import ROOT, TokenFile
from runtime.tokens import token_bytes

TEKKEN = "mistral_common/data/tekken_240911.json"
"""In the peers' environment; a tokenizer of 131,072 tokens, under Apache-2.0."""


@dataclass(frozen=True)
class NamedVocabulary:
    """`encode`: the tokenizer's own tokens of a text; None where there is none."""

    name: str
    file: TokenFile
    encode: Callable[[str], list[int]] | None = None


def of_model(folder: Path) -> NamedVocabulary:
    """The vocabulary of a model's folder in Hugging Face format."""
    path = folder / "tokenizer.json"
    core = Tokenizer.from_file(str(path))
    settings = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    stops = settings["eos_token_id"]

    def encode(text: str) -> list[int]:
        return list(core.encode(text, add_special_tokens=False).ids)

    tokens = token_bytes(core)
    file = TokenFile(tokens, stops if isinstance(stops, list) else [stops], path)
    return NamedVocabulary(f"{len(tokens):,} of the model", file, encode)


def tekken() -> NamedVocabulary | None:
    """Tekken's, when its package is in the peers' environment."""
    paths = sorted((ROOT / ".bench-venv").glob(f"lib/python*/site-packages/{TEKKEN}"))
    if not paths:
        return None
    described = json.loads(paths[0].read_text(encoding="utf-8"))
    size = described["config"]["default_vocab_size"]
    special = described["config"]["default_num_special_tokens"]
    tokens: list[bytes | None] = [None] * special
    tokens += [base64.b64decode(entry["token_bytes"]) for entry in described["vocab"]]
    return NamedVocabulary(f"{size:,} of Tekken", TokenFile(tokens[:size], [2]))


def synthetic(base: NamedVocabulary, size: int) -> NamedVocabulary:
    """`base` and as many pairs of its first tokens as it takes: the frequent ones, since merges are
    made in the order of their frequency.
    """
    tokens = list(base.file.tokens)
    known = {token for token in tokens if token}
    words = [token for token in tokens if token and len(token) > 1]
    for total in itertools.count():
        for left in range(total + 1):
            if len(tokens) >= size:
                file = TokenFile(tokens, base.file.stops)
                return NamedVocabulary(f"{size:,} synthetic", file)
            if max(left, total - left) < len(words):
                pair = words[left] + words[total - left]
                if pair not in known:
                    known.add(pair)
                    tokens.append(pair)
    raise AssertionError("unreachable")
