"""The trie of a vocabulary against its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from grammars import GrammarError, Vocabulary
from grammars.trie import Trie

tokens = st.lists(st.one_of(st.none(), st.binary(max_size=4)), min_size=1, max_size=40)


def path(trie: Trie, node: int) -> bytes:
    written = b""
    while node:
        written = bytes([trie.edge_byte[node]]) + written
        node = int(trie.parent[node])
    return written


@given(tokens)
@settings(max_examples=200, deadline=None)
def test_every_token_ends_at_the_node_of_its_bytes(found: list[bytes | None]) -> None:
    tokens = [*found, b"x", b"a long token of more than 16 bytes", None]
    vocabulary = Vocabulary(tokens, eos_token_ids=[len(tokens) - 1])
    for trie in (vocabulary.trie, *vocabulary.bands):
        for token_id, node in zip(trie.token_ids.tolist(), trie.token_node.tolist(), strict=True):
            assert path(trie, node) == tokens[token_id] == vocabulary.token_bytes(token_id)
    for node, token_id in enumerate(vocabulary.token_at):
        if token_id >= 0:
            assert token_id == tokens.index(path(vocabulary.trie, node))
    written = [token_id for token_id, data in enumerate(tokens) if data]
    assert sorted(vocabulary.trie.token_ids.tolist()) == written
    assert sorted(t for trie in vocabulary.bands for t in trie.token_ids.tolist()) == written
    assert all(vocabulary.token_bytes(t) is None for t in range(len(tokens)) if t not in written)


@given(tokens)
@settings(max_examples=100, deadline=None)
def test_the_children_of_a_node_are_contiguous_and_distinct(found: list[bytes | None]) -> None:
    vocabulary = Vocabulary([*found, b"x"], eos_token_ids=[])
    trie = vocabulary.trie
    prefixes = {data[:end] for data in [*found, b"x"] if data for end in range(len(data) + 1)}
    assert trie.num_nodes == len(prefixes)
    for node in range(trie.num_nodes):
        first = int(trie.first_child[node])
        children = range(first, first + int(trie.num_children[node]))
        assert all(trie.parent[child] == node for child in children)
        assert len({int(trie.edge_byte[child]) for child in children}) == len(children)
        for child in children:
            assert vocabulary.child[node * 256 + int(trie.edge_byte[child])] == child


def test_pack_sets_bit_i_of_word_i_over_32() -> None:
    vocabulary = Vocabulary([b"a"] * 70, eos_token_ids=[])
    row = vocabulary.pack([0, 31, 33, 69])
    assert vocabulary.num_words == 3
    assert row.dtype == np.int32
    assert row.view(np.uint32).tolist() == [1 | 1 << 31, 2, 1 << 5]


def test_the_alphabet_is_the_bytes_that_occur() -> None:
    vocabulary = Vocabulary([b"a", b"bc", b"z"], eos_token_ids=[2])
    assert vocabulary.alphabet == sum(1 << byte for byte in b"abc")  # z stops, it writes nothing
    assert not vocabulary.is_complete
    assert Vocabulary([b"a", b"b", b"ab"], eos_token_ids=[]).is_complete


def test_bad_vocabularies_are_refused() -> None:
    with pytest.raises(GrammarError, match="eos_token_ids has 7"):
        Vocabulary([b"a"], eos_token_ids=[7])
    with pytest.raises(GrammarError, match="no token that writes bytes"):
        Vocabulary([None, b""], eos_token_ids=[])
