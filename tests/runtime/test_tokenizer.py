"""Tokens, bytes and borders, against the tokenizer library itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from transformers import AutoTokenizer

from runtime.model.load import load_tokenizer
from runtime.models import BrokenModelError
from runtime.tokenizer import Tokenizer
from sgdsl.machine import Piece

WORDS = [
    "license",
    " the ",
    "Work",
    "contributor",
    "\n",
    " ",
    "  ",
    "é",
    "日本",
    "🐢",
    "2024",
    ".",
    "a",
]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def test_a_token_s_bytes_are_what_the_library_decodes(
    tokenizer: Tokenizer, tiny_llama_path: Path
) -> None:
    library = AutoTokenizer.from_pretrained(tiny_llama_path)
    for token_id, data in enumerate(tokenizer.token_bytes):
        if data is None:
            assert token_id in library.all_special_ids or token_id >= len(library)
            continue
        decoded = library.decode([token_id], clean_up_tokenization_spaces=False)
        assert data.decode("utf-8", "replace") == decoded


@pytest.mark.model
def test_the_default_model_s_vocabulary_is_right_in_every_token(default_model_path: Path) -> None:
    library = AutoTokenizer.from_pretrained(default_model_path)
    tokenizer = load_tokenizer(default_model_path, vocab_size=49152)
    assert tokenizer.eos_token_ids == {0, 2}
    assert tokenizer.bos_token_ids == []
    plain = [i for i, data in enumerate(tokenizer.token_bytes) if data is not None]
    assert set(range(49152)) - set(plain) == set(library.all_special_ids) | set(range(17))
    decoded = library.batch_decode([[i] for i in plain], clean_up_tokenization_spaces=False)
    for token_id, text in zip(plain, decoded, strict=True):
        data = tokenizer.token_bytes[token_id]
        assert data is not None
        assert data.decode("utf-8", "replace") == text


@settings(deadline=None)
@given(text=texts)
def test_bytes_survive_the_round_trip(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


@settings(max_examples=300, deadline=None)
@given(before=texts, after=texts)
def test_a_border_is_split_as_the_joined_text_would_be(
    tokenizer: Tokenizer, before: str, after: str
) -> None:
    tokens = tokenizer.encode(before)
    keep, following = tokenizer.continue_with(tokens, [Piece(after)])
    assert tokens[:keep] + following == tokenizer.encode(before + after)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), after=texts)
def test_text_never_changes_at_a_border(
    tokenizer: Tokenizer, data: st.DataObject, after: str
) -> None:
    """Whatever tokens a model has written, whole characters or not."""
    plain = [i for i, own in enumerate(tokenizer.token_bytes) if own is not None]
    tokens = data.draw(st.lists(st.sampled_from(plain), max_size=12))
    keep, following = tokenizer.continue_with(tokens, [Piece(after)])
    assert tokenizer.decode(tokens[:keep] + following) == tokenizer.decode(tokens) + after.encode()


def test_only_a_template_writes_special_tokens(tokenizer: Tokenizer) -> None:
    text = "<|im_start|>user"
    plain = tokenizer.encode_pieces([Piece(text)])
    special = tokenizer.encode_pieces([Piece(text, special=True)])
    assert 1 not in plain
    assert tokenizer.decode(plain).decode() == text
    assert special == [1, *tokenizer.encode("user")]


def test_plain_text_is_joined_over_a_template_s_border(tokenizer: Tokenizer) -> None:
    pieces = [Piece("<|im_start|>us", special=True), Piece("er license")]
    assert tokenizer.encode_pieces(pieces) == [1, *tokenizer.encode("user license")]


def test_a_special_token_is_a_border_by_itself(tokenizer: Tokenizer) -> None:
    tokens = [*tokenizer.encode("a"), 2]
    assert tokenizer.continue_with(tokens, [Piece("b")]) == (2, tokenizer.encode("b"))
    tokens = [2, *tokenizer.encode("lic")]
    keep, following = tokenizer.continue_with(tokens, [Piece("ense")])
    assert tokens[:keep] + following == [2, *tokenizer.encode("license")]


@settings(deadline=None)
@given(text=texts.filter(bool), data=st.data())
def test_what_is_healed_could_have_been_longer(
    tokenizer: Tokenizer, text: str, data: st.DataObject
) -> None:
    tokens = tokenizer.encode(text)
    num_bytes = data.draw(st.integers(0, 20))
    count = tokenizer.healable(tokens, num_bytes)
    assert 0 <= count < len(tokens)
    assert len(tokenizer.decode(tokens[len(tokens) - count :])) <= num_bytes
    longer = [own for own in tokenizer.token_bytes if own]

    def begins(n: int) -> bool:
        spelled = tokenizer.decode(tokens[-n:])
        fits = len(spelled) <= num_bytes
        return fits and any(own.startswith(spelled) and own != spelled for own in longer)

    assert count == 0 or begins(count)
    assert not any(begins(n) for n in range(count + 1, min(8, len(tokens) - 1) + 1))


@settings(deadline=None)
@given(text=texts.filter(bool))
def test_a_spelling_is_every_token_that_agrees(tokenizer: Tokenizer, text: str) -> None:
    data = text.encode()[:10]
    agreeing = [
        token_id
        for token_id, own in enumerate(tokenizer.token_bytes)
        if own and (own.startswith(data) or data.startswith(own))
    ]
    assert sorted(tokenizer.spelling(data).tolist()) == agreeing


def test_the_chat_template_is_read_out_of_the_model_s_own(tokenizer: Tokenizer) -> None:
    template = tokenizer.chat_template
    assert template.prefixes["user"] == "<|im_start|>user\n"
    assert template.suffixes["assistant"] == "<|im_end|>\n"
    assert template.default_system_prompt is None


@pytest.mark.model
def test_a_conversation_is_what_the_jinja_template_renders(default_model_path: Path) -> None:
    library = AutoTokenizer.from_pretrained(default_model_path)
    template = load_tokenizer(default_model_path, vocab_size=49152).chat_template
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    rendered = library.apply_chat_template(messages, tokenize=False)
    assert template.default_system_prompt is not None
    written = [("system", template.default_system_prompt), ("user", "Hi"), ("assistant", "Hello")]
    assert rendered == "".join(
        template.prefixes[role] + text + template.suffixes[role] for role, text in written
    )


def test_a_tokenizer_that_belongs_to_a_larger_model_is_refused(tiny_llama_path: Path) -> None:
    with pytest.raises(BrokenModelError, match="but the model only 100"):
        load_tokenizer(tiny_llama_path, vocab_size=100)
