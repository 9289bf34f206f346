"""Real vocabularies without a hub: the files in the wheel of the package `mistral-common`.

Apache-2.0: SentencePiece models of 32,000 pieces with byte fallback, and Tekken files of 131,072
byte-level tokens. Nothing of the package is imported, so it may be installed without what it
depends on: `pip install --no-deps mistral-common`. It is no extra of ours, as with its dependencies
it holds numpy back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaTokenizer, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import generate_merges

from runtime.tokens import byte_level_alphabet

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""Types of pieces, see sentencepiece_model.proto."""


def wheel_file(name: str) -> Path:
    """A file of the package; the test is skipped where it is not installed."""
    spec = find_spec("mistral_common")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the files of `pip install --no-deps mistral-common` (6 MB)")
    return Path(spec.submodule_search_locations[0]) / "data" / name


@dataclass(frozen=True)
class Piece:
    """One token of a SentencePiece model."""

    text: str
    kind: int

    @property
    def data(self) -> bytes | None:
        """What it writes, by the definition of its kind."""
        if self.kind == BYTE:
            return bytes([int(self.text[1:-1], 16)])
        return self.text.replace("\u2581", " ").encode() if self.kind == NORMAL else None


def read_pieces(path: Path) -> list[Piece]:
    """The pieces of a SentencePiece model, which is a protobuf message: field 1 of it, with fields
    1 (text) and 3 (kind).
    """
    found = []
    for number, value in _fields(path.read_bytes()):
        if number == 1:
            assert isinstance(value, bytes)
            piece: dict[int, Any] = dict(_fields(value))
            found.append(Piece(piece[1].decode(), piece.get(3, NORMAL)))
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(key & 7)
        if size is None:
            size, at = _varint(message, at)
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def sentencepiece_backend(pieces: list[Piece], **options: Any) -> LlamaTokenizer:
    """The tokenizer that transformers makes of such a model."""
    vocabulary = {piece.text: token_id for token_id, piece in enumerate(pieces)}
    special = [p.text for p in pieces if p.kind in {UNKNOWN, CONTROL}]
    backend = LlamaTokenizer(
        vocab=vocabulary,
        merges=generate_merges(vocabulary, skip_tokens=special),
        additional_special_tokens=special,
        **options,
    )
    others = [AddedToken(p.text, normalized=False) for p in pieces if p.kind == USER_DEFINED]
    backend.add_tokens(others)
    return backend


def read_tekken(path: Path) -> tuple[list[bytes | None], str]:
    """The bytes of each token of a Tekken file (special tokens come first), and its pattern."""
    described = json.loads(path.read_text(encoding="utf-8"))
    config = described["config"]
    num_special = config["default_num_special_tokens"]
    own = described["vocab"][: config["default_vocab_size"] - num_special]
    tokens = [base64.b64decode(token["token_bytes"]) for token in own]
    return [None] * num_special + tokens, config["pattern"]


def tekken_backend(tokens: list[bytes | None], pattern: str) -> Any:
    """The tokenizer that transformers makes of them: byte-level BPE, merged by rank."""
    stand_in = {byte: char for char, byte in byte_level_alphabet().items()}
    spelled = {
        "".join(stand_in[byte] for byte in data) if data else f"<SPECIAL_{token_id}>": token_id
        for token_id, data in enumerate(tokens)
    }
    written = {text: token_id for text, token_id in spelled.items() if tokens[token_id]}
    core = Tokenizer(BPE(vocab=spelled, merges=generate_merges(written), ignore_merges=True))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    special = [text for text, token_id in spelled.items() if not tokens[token_id]]
    core.add_special_tokens(special)
    wrap: Any = PreTrainedTokenizerFast  # its signature is not typed
    return wrap(tokenizer_object=core, bos_token="<SPECIAL_1>", eos_token="<SPECIAL_2>")
