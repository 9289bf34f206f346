"""The bytes of each token, from the tokenizer's own tables; and what encoding does to a text.

Owns the decoding of vocabulary spellings: byte-level BPE (GPT-2's printable stand-ins for bytes;
Tekken is one of these), SentencePiece (a mark for the space, `<0x0A>` for a byte) and WordPiece
(`##` inside of a word, a space in front of all others). Never from decoded strings: a token may be
a part of a character. What the tables say is then compared with what the tokenizer decodes, token
by token.

The mark of SentencePiece is a space wherever it stands inside of a text. What begins a text is
written with one more mark than it has spaces (the dummy prefix), if the tokenizer is made so: its
bytes are a space here too, and `Encoding` says where it comes from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from runtime.models import ModelError

SPACE_MARK = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")

Part = dict[str, Any]
"""A tokenizer's part, as its file describes it: its type and settings."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a tokenizer does to a text beyond splitting it.

    `begins`: for the beginning of a text. `within`: the same without the dummy prefix, for what
    follows other text. `prefixes_segments`: the dummy prefix comes behind special tokens too.
    `is_exact`: no text is changed; else it is normalised, or white space is left out.
    """

    begins: FastTokenizer
    within: FastTokenizer
    prefixes_segments: bool
    is_exact: bool


def encoding(core: FastTokenizer) -> Encoding:
    """How `core` encodes."""
    parts = [*parts_of(core.normalizer), *parts_of(core.pre_tokenizer)]
    prefixes = [scheme for part in parts if (scheme := _dummy_prefix(part))]
    is_exact = not any(map(_changes_text, parts))
    if not prefixes:
        return Encoding(core, core, prefixes_segments=False, is_exact=is_exact)
    described = json.loads(core.to_str())
    for key in ("normalizer", "pre_tokenizer"):
        described[key] = _without_dummy_prefix(described[key])
    within = FastTokenizer.from_str(json.dumps(described))
    return Encoding(core, within, prefixes_segments="always" in prefixes, is_exact=is_exact)


def token_bytes(core: FastTokenizer) -> list[bytes | None]:
    """For each id its bytes; None for added tokens (special ones among them), for the one that
    stands for what is unknown, and for unused ids.

    Raises ModelError when a token's bytes cannot be told, or the tokenizer decodes it otherwise.
    """
    vocabulary: dict[str, int] = core.get_vocab(with_added_tokens=True)
    added = core.get_added_tokens_decoder()
    unknown = getattr(core.model, "unk_token", None)
    spell = _speller(core)
    found: list[bytes | None] = [None] * (max(vocabulary.values()) + 1)
    for text, token_id in vocabulary.items():
        if token_id not in added and text != unknown:
            found[token_id] = spell(text)
    _verify(core, found)
    return found


# -- spellings -------------------------------------------------------------------------------------


def _speller(core: FastTokenizer) -> Callable[[str], bytes | None]:
    """How this tokenizer's tokens spell their bytes."""
    decoders = {part["type"]: part for part in parts_of(core.decoder)}
    if "ByteLevel" in decoders:
        return _byte_level
    if "WordPiece" in decoders:
        _refuse_inexact_words(core, decoders["WordPiece"])
        prefix = str(decoders["WordPiece"]["prefix"])
        return lambda text: _word_piece(text, prefix)
    if "ByteFallback" in decoders:
        return _byte_fallback
    if "Metaspace" in decoders or SPACE_MARK in str(decoders.get("Replace", "")):
        return _marked
    raise ModelError(
        f"the tokenizer decodes with {sorted(decoders)!r}; byte-level BPE, SentencePiece and exact "
        "WordPiece vocabularies are supported: choose a model that has one"
    )


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's table: printable Latin-1 bytes stand for themselves, the rest for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    table.update({chr(0x100 + offset): byte for offset, byte in enumerate(others)})
    return table


_BYTE_LEVEL = byte_level_alphabet()


def _byte_level(text: str) -> bytes | None:
    try:
        return bytes([_BYTE_LEVEL[char] for char in text])
    except KeyError:
        return None  # outside the table: the model cannot mean bytes by it


def _byte_fallback(text: str) -> bytes:
    if byte := _BYTE_TOKEN.match(text):
        return bytes([int(byte.group(1), 16)])
    return _marked(text)


def _marked(text: str) -> bytes:
    return text.replace(SPACE_MARK, " ").encode()


def _word_piece(text: str, prefix: str) -> bytes:
    return text[len(prefix) :].encode() if text.startswith(prefix) else b" " + text.encode()


def _refuse_inexact_words(core: FastTokenizer, decoder: Part) -> None:
    """WordPiece decodes to words with spaces between them; a constraint needs that to be all."""
    reason = None
    if decoder["cleanup"]:
        reason = "takes spaces away again when it decodes (cleanup)"
    elif any(map(_changes_text, parts_of(core.normalizer))):
        reason = "rewrites texts, as by lower-casing them, before it splits them"
    if reason:
        raise ModelError(
            f"the tokenizer is WordPiece and {reason}, so its tokens stand for no exact text; "
            "choose a model with a byte-level BPE or SentencePiece vocabulary"
        )


def _verify(core: FastTokenizer, found: list[bytes | None]) -> None:
    """Each token's bytes against what the tokenizer decodes, behind a word: at the beginning of a
    text a space may be left out.
    """
    written = [(token_id, data) for token_id, data in enumerate(found) if data is not None]
    words = [(len(data), token_id) for token_id, data in written if data.strip().isalpha()]
    if not words:
        raise ModelError("the tokenizer has no token of letters; choose another model")
    _, word = max(words)  # of several letters: single ones may be bytes, which decode together
    before = core.decode([word])
    decoded = core.decode_batch([[word, token_id] for token_id, _ in written])
    for (token_id, data), text in zip(written, decoded, strict=True):
        if text != before + data.decode("utf-8", "replace"):
            raise ModelError(
                f"the tokenizer decodes token {token_id} as {text.removeprefix(before)!r}, but its "
                f"vocabulary spells {data!r}; use the tokenizer files that came with the model"
            )


# -- what encoding does ----------------------------------------------------------------------------


def parts_of(component: Any) -> list[Part]:
    """What a normalizer, pre-tokenizer or decoder is made of, each part as files describe it."""
    return [] if component is None else list(_flat(json.loads(component.__getstate__())))


def _flat(part: Part) -> Iterator[Part]:
    yield part
    for inner in ("normalizers", "pretokenizers", "decoders"):
        for below in part.get(inner, ()):
            yield from _flat(below)


def _dummy_prefix(part: Part) -> str | None:
    """Where this part puts a space in front: "always", at each beginning; "first", of a text."""
    if part["type"] == "Prepend" and part["prepend"] in {SPACE_MARK, " "}:
        return "always"
    if part["type"] == "Metaspace" and part["prepend_scheme"] != "never":
        return str(part["prepend_scheme"])
    if part["type"] == "ByteLevel" and part.get("add_prefix_space"):
        return "always"
    return None


def _without_dummy_prefix(part: Part | None) -> Part | None:
    """The same part, or sequence of parts, without what puts a space in front."""
    if part is None or (part["type"] == "Prepend" and _dummy_prefix(part)):
        return None
    changed = dict(part)
    for inner in ("normalizers", "pretokenizers"):
        if inner in part:
            changed[inner] = [kept for p in part[inner] if (kept := _without_dummy_prefix(p))]
    if "prepend_scheme" in part:
        changed["prepend_scheme"] = "never"
    if "add_prefix_space" in part:
        changed["add_prefix_space"] = False
    return changed


_KEEP_TEXT = {"Sequence", "ByteLevel", "Metaspace", "Digits", "UnicodeScripts", "FixedLength"}
_KEEP_TEXT_UNLESS_REMOVED = {"Split", "Punctuation"}


def _changes_text(part: Part) -> bool:
    """Whether this part may change a text, beyond the dummy prefix and the mark for a space."""
    kind = part["type"]
    if kind in _KEEP_TEXT or (kind == "Prepend" and _dummy_prefix(part)):
        return False
    if kind in _KEEP_TEXT_UNLESS_REMOVED:
        return bool(part["behavior"] == "Removed")
    if kind == "Replace":
        return (part["pattern"], part["content"]) != ({"String": " "}, SPACE_MARK)
    if kind == "BertNormalizer":
        return any(part[key] for key in ("clean_text", "handle_chinese_chars", "lowercase")) or (
            part["strip_accents"] is True
        )
    return True
