"""What is known of a constant never changes the tokens of the text that it begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from runtime.constants import SHORTEST, Constants
from runtime.model.load import load_tokenizer
from runtime.tokenizer import Tokenizer
from sgdsl.machine import Piece
from tests.runtime.small_tokenizers import engine_tokenizer, sentencepiece

WORDS = [
    "license",
    " the",
    "a",
    "\n",
    " ",
    "  ",
    "é",
    "日",
    "🐢",
    "20",
    ".",
    "'s",
    "\t",
    "\r\n",
    "!?",
]
texts = st.lists(st.sampled_from(WORDS), max_size=20).map("".join)


@given(constant=texts, rest=texts, more=texts)
def test_with_a_known_constant_the_tokens_are_those_of_the_whole_text(
    tokenizer: Tokenizer, constant: str, rest: str, more: str
) -> None:
    constant = "The licence of the work. " * 3 + constant
    whole = tokenizer.encode(constant + rest + more)
    for _ in range(3):  # it is kept at the second time, and used at the third
        pieces = [Piece(constant), Piece(rest), Piece(more)]
        assert tokenizer.encode_pieces(pieces) == whole
        assert tokenizer.encode_pieces(pieces, begins=False) == tokenizer.encode_within(
            constant + rest + more
        )


@pytest.mark.model
@settings(max_examples=200)
@given(constant=texts, rest=texts)
def test_also_with_the_default_model_s(default_model_path: Path, constant: str, rest: str) -> None:
    tokenizer = _default(default_model_path)
    constant = "Read this: 2024!\n" * 4 + constant
    for _ in range(3):
        assert tokenizer.encode_pieces([Piece(constant), Piece(rest)]) == tokenizer.encode(
            constant + rest
        )


def test_nearly_all_of_a_constant_is_kept(tokenizer: Tokenizer) -> None:
    constants = Constants(tokenizer._encoding.within)
    text = "The licence of the work. " * 10
    assert constants.split(text) == ([], text)
    for _ in range(2):
        known, rest = constants.split(text)
        assert len(rest) < 10
        assert tokenizer.decode(known).decode() + rest == text
    short = text[: SHORTEST - 1]
    assert [constants.split(short) for _ in range(3)] == [([], short)] * 3


def test_what_comes_once_is_not_kept(tokenizer: Tokenizer) -> None:
    constants = Constants(tokenizer._encoding.within)
    for index in range(20_000):
        constants.split(f"{index} " + "x" * SHORTEST)
    assert not constants._known
    assert len(constants._seen) < 20_000


def test_where_words_depend_on_what_stands_far_away_nothing_is_known() -> None:
    tokenizer = engine_tokenizer(sentencepiece())
    text = "the a " * 40
    assert [tokenizer._constants.split(text) for _ in range(3)] == [([], text)] * 3


_loaded: dict[Path, Tokenizer] = {}


def _default(path: Path) -> Tokenizer:
    if path not in _loaded:
        _loaded[path] = load_tokenizer(path, vocab_size=49152)
    return _loaded[path]
