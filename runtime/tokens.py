"""The bytes of each token, from the tokenizer's own tables.

Owns the decoding of vocabulary spellings: byte-level BPE (GPT-2's printable stand-ins for bytes)
and SentencePiece-like ones (a mark for the space, `<0x0A>` for a byte). Never from decoded strings:
a token may be a part of a character.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from runtime.models import ModelError

SPACE_MARK = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 bytes stand for themselves, the rest for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    table.update({chr(0x100 + offset): byte for offset, byte in enumerate(others)})
    return table


def token_bytes(core: FastTokenizer) -> list[bytes | None]:
    """For each id its bytes; None for added tokens (special ones among them) and for unused ids."""
    vocabulary: dict[str, int] = core.get_vocab(with_added_tokens=True)
    added = core.get_added_tokens_decoder()
    kinds = _kinds(json.loads(core.to_str())["decoder"])
    if "ByteLevel" in kinds:
        spell = _byte_level
    elif "ByteFallback" in kinds or "Metaspace" in kinds:
        spell = _sentencepiece
    else:
        raise ModelError(
            f"the tokenizer decodes with {sorted(kinds)!r}; byte-level BPE and SentencePiece "
            "vocabularies are supported: choose a model that has one"
        )
    found: list[bytes | None] = [None] * (max(vocabulary.values()) + 1)
    for text, token_id in vocabulary.items():
        if token_id not in added:
            found[token_id] = spell(text)
    return found


def _kinds(decoder: dict[str, Any] | None) -> set[str]:
    if decoder is None:
        return set()
    inner = decoder.get("decoders", ())
    return {decoder["type"]}.union(*(_kinds(part) for part in inner))


_BYTE_LEVEL = byte_level_alphabet()


def _byte_level(text: str) -> bytes | None:
    try:
        return bytes([_BYTE_LEVEL[char] for char in text])
    except KeyError:
        return None  # outside the table: the model cannot mean bytes by it


def _sentencepiece(text: str) -> bytes:
    if byte := _BYTE_TOKEN.match(text):
        return bytes([int(byte.group(1), 16)])
    return text.replace(SPACE_MARK, " ").encode()
