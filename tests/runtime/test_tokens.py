"""The bytes of tokens, and what encoding does to texts, for every kind of tokenizer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import AddedToken, Tokenizer as Core, decoders, models, normalizers, pre_tokenizers

from runtime.models import ModelError
from runtime.tokenizer import Tokenizer
from runtime.tokens import encoding, token_bytes
from sgdsl.machine import Piece
from tests.runtime import small_tokenizers as small

SENTENCEPIECE = small.engine_tokenizer(small.sentencepiece())
BYTE_LEVEL = small.engine_tokenizer(small.byte_level())
WORD_PIECE = small.engine_tokenizer(small.word_piece())
texts = st.lists(
    st.sampled_from(["the", " the", "a", "b", " ", "  ", "\n", "é", "日本", "🐢", '{"a":', "12"]),
    max_size=8,
).map("".join)


# -- bytes -----------------------------------------------------------------------------------------


def test_a_byte_token_is_a_byte_and_a_mark_is_a_space() -> None:
    known = SENTENCEPIECE.token_bytes
    ids = small.sentencepiece().get_vocab()
    written = {text: known[ids[text]] for text in ("<0x0A>", "<0xE6>", "▁the", "▁▁▁▁", "日本")}
    assert list(written.values()) == [b"\n", b"\xe6", b" the", b"    ", "日本".encode()]
    assert known[ids["<unk>"]] is None and known[ids["<s>"]] is None


def test_byte_tokens_are_only_bytes_where_the_tokenizer_takes_them_for_bytes() -> None:
    core = Core(models.BPE(vocab={"<0x0A>": 0, "▁ab": 1, "ab": 2}, merges=[]))
    core.decoder = decoders.Metaspace()
    assert token_bytes(core) == [b"<0x0A>", b" ab", b"ab"]


def test_parts_of_words_go_on_and_words_begin_with_a_space() -> None:
    known = {text: WORD_PIECE.token_bytes[i] for i, text in enumerate(["[UNK]", *small.PIECES])}
    assert known["##ab"] == b"ab" and known["ab"] == b" ab" and known["日"] == " 日".encode()
    assert known["[UNK]"] is None


@pytest.mark.parametrize("tokenizer", [SENTENCEPIECE, BYTE_LEVEL, WORD_PIECE])
@given(data=st.data())
@settings(max_examples=100)
def test_joined_bytes_are_what_the_library_decodes(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """But for one space at the beginning, where the dummy prefix stands. (A part of a word that
    begins a text shows its ## there.)
    """
    plain = [i for i, own in enumerate(tokenizer.token_bytes) if own is not None]
    tokens = data.draw(st.lists(st.sampled_from(plain), max_size=12))
    if tokenizer is WORD_PIECE:
        tokens.insert(0, tokenizer.token_bytes.index(b" ab"))
    written = tokenizer.decode(tokens)
    decoded = tokenizer._encoding.begins.decode(tokens)
    try:
        text = written.decode()
        assert decoded in (text, text.removeprefix(" "))
    except UnicodeDecodeError:
        assert "\ufffd" in decoded


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (lambda: small.word_piece(normalizer=normalizers.BertNormalizer()), "lower-casing"),
        (lambda: small.word_piece(normalizer=normalizers.Lowercase()), "lower-casing"),
        (lambda: small.word_piece(cleanup=True), "cleanup"),
    ],
)
def test_a_vocabulary_of_words_that_writes_no_exact_text_is_refused(
    backend: Any, reason: str
) -> None:
    with pytest.raises(ModelError, match=f"WordPiece and .*{reason}"):
        small.engine_tokenizer(backend())


def test_a_normalizer_that_does_nothing_refuses_no_words() -> None:
    idle = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False
    )
    small.engine_tokenizer(small.word_piece(normalizer=idle))


def test_a_decoder_that_is_not_known_is_refused() -> None:
    core = Core(models.BPE(vocab={"a</w>": 0}, merges=[]))
    core.decoder = decoders.BPEDecoder()
    with pytest.raises(ModelError, match=r"decodes with \['BPEDecoder'\]"):
        token_bytes(core)


def test_a_table_that_decodes_otherwise_is_refused() -> None:
    core = Core(models.BPE(vocab={"ab": 0, "b": 1, "c": 2}, merges=[]))
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Replace("c", "d")])
    with pytest.raises(ModelError, match=r"decodes token 2 as 'd', but its vocabulary spells b'c'"):
        token_bytes(core)


def test_a_tokenizer_without_tables_is_refused() -> None:
    class Slow:
        backend_tokenizer = None

    with pytest.raises(ModelError, match=r"the tokenizer is a Slow, which has no tables"):
        Tokenizer(Slow(), vocab_size=9, eos_token_ids=[0], chat_template=BYTE_LEVEL.chat_template)


# -- the dummy prefix ------------------------------------------------------------------------------


def test_the_dummy_prefix_stands_at_the_beginning_of_a_text_alone() -> None:
    tokenizer = SENTENCEPIECE
    assert tokenizer.decode(tokenizer.encode("the")) == b" the"
    assert tokenizer.decode(tokenizer.encode_within("the")) == b"the"
    _, begins = tokenizer.continue_with([], [Piece("the")])
    assert begins == tokenizer.bos_token_ids + tokenizer.encode("the")
    assert tokenizer.encode("") == []
    keep, following = tokenizer.continue_with(tokenizer.encode("a"), [Piece("the")])
    assert tokenizer.decode([*tokenizer.encode("a")[:keep], *following]) == b" athe"


@pytest.mark.parametrize(("legacy", "behind"), [(False, b"the"), (True, b" the")])
def test_behind_a_special_token_the_dummy_prefix_follows_the_tokenizer(
    legacy: bool, behind: bytes
) -> None:
    tokenizer = small.engine_tokenizer(small.sentencepiece(legacy=legacy))
    pieces = [Piece("</s>", special=True), Piece("the")]
    assert tokenizer.decode(tokenizer.encode_pieces(pieces)) == behind
    keep, following = tokenizer.continue_with([2], [Piece("the")])
    assert (keep, tokenizer.decode(following)) == (1, behind)
    library = small.sentencepiece(legacy=legacy)
    assert library("</s>the", add_special_tokens=False)["input_ids"] == [2, *following]


@pytest.mark.parametrize("kind", ["Prepend", "Metaspace", "ByteLevel"])
def test_each_way_to_write_the_dummy_prefix_is_known(kind: str) -> None:
    core = Core(models.BPE(vocab={"▁": 0, "a": 1, "Ġ": 2, "▁a": 3, "Ġa": 4}, merges=[]))
    if kind == "Prepend":
        core.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    elif kind == "Metaspace":
        core.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(prepend_scheme="always")]
        )
    else:
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    found = encoding(core)
    assert found.is_exact and found.prefixes_segments
    assert found.begins.encode("a").ids == [2, 1] if kind == "ByteLevel" else [0, 1]
    assert found.within.encode("a").ids == [1]


@pytest.mark.parametrize("tokenizer", [SENTENCEPIECE, BYTE_LEVEL])
@given(data=st.data(), after=texts)
@settings(max_examples=150)
def test_text_never_changes_at_a_border(
    tokenizer: Tokenizer, data: st.DataObject, after: str
) -> None:
    plain = [i for i, own in enumerate(tokenizer.token_bytes) if own is not None]
    tokens = data.draw(st.lists(st.sampled_from(plain), min_size=1, max_size=12))
    keep, following = tokenizer.continue_with(tokens, [Piece(after)])
    assert tokenizer.decode(tokens[:keep] + following) == tokenizer.decode(tokens) + after.encode()


@given(before=texts, after=texts)
@settings(max_examples=150)
def test_a_border_of_marked_text_is_split_as_the_joined_text_would_be(
    before: str, after: str
) -> None:
    tokens = SENTENCEPIECE.encode(before)
    keep, following = SENTENCEPIECE.continue_with(tokens, [Piece(after)])
    expected = SENTENCEPIECE.encode(before + after)
    if tokens:
        assert tokens[:keep] + following == expected


# -- texts that are changed ------------------------------------------------------------------------


def test_tokenizers_that_rewrite_texts_say_so() -> None:
    assert SENTENCEPIECE.is_exact and BYTE_LEVEL.is_exact
    assert not WORD_PIECE.is_exact  # white space between words is left out
    assert not small.engine_tokenizer(small.byte_level(normalizer=normalizers.NFC())).is_exact


def test_what_the_model_wrote_is_not_normalised_at_a_border() -> None:
    tokenizer = small.engine_tokenizer(small.byte_level(normalizer=normalizers.NFC()))
    written = [*b"e", *"\u0301".encode()]  # ids are bytes here; NFC would make one character of it
    tokens = [token for byte in written for token in [tokenizer.token_bytes.index(bytes([byte]))]]
    keep, following = tokenizer.continue_with(tokens, [Piece("x")])
    assert tokenizer.decode(tokens[:keep] + following) == "e\u0301x".encode()


def test_an_added_token_in_what_the_model_wrote_does_not_eat_it() -> None:
    """It has no bytes, so text that contains its name must not become it."""
    tokenizer = small.engine_tokenizer(small.byte_level(added=[AddedToken("ab12")]))
    tokens = [*tokenizer.encode("ab1")]
    keep, following = tokenizer.continue_with(tokens, [Piece("x")])
    assert tokenizer.decode(tokens[:keep] + following) == b"ab1x"
    split = [tokenizer.token_bytes.index(data) for data in (b"ab", b"1", b"2")]
    keep, following = tokenizer.continue_with(split, [Piece("x")])
    assert tokenizer.decode(split[:keep] + following) == b"ab12x"


def test_the_file_of_a_tokenizer_is_not_changed_by_reading_it() -> None:
    core = small.sentencepiece().backend_tokenizer
    before = json.loads(core.to_str())
    encoding(core)
    assert json.loads(core.to_str()) == before
