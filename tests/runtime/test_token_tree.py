"""Texts as a tree of tokens: nothing twice, and every text is spelled."""

from __future__ import annotations

from hypothesis import given, strategies as st

from runtime.token_tree import TokenTree


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=20))
def test_a_tree_holds_each_beginning_once_and_spells_every_text(texts: list[list[int]]) -> None:
    """Empty ones, equal ones and beginnings of each other too."""
    tree = TokenTree(texts)
    assert [[tree.edges[edge] for edge in path] for path in tree.paths] == texts
    beginnings = {tuple(text[:end]) for text in texts for end in range(1, len(text) + 1)}
    assert len(tree.edges) == len(beginnings)
    assert len(tree) == len({each[:-1] for each in beginnings if len(each) > 1})
    assert tree.height == max(0, *(len(text) - 1 for text in texts), 0)


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=20))
def test_what_a_node_follows_is_on_the_path_to_the_one_before_it(texts: list[list[int]]) -> None:
    tree = TokenTree(texts)
    for node in range(len(tree)):
        path = tree.path_to(node)
        assert [tree.depths[each] for each in path] == list(range(len(path)))
        if node:
            assert path[:-1] == tree.path_to(node - 1)[: len(path) - 1]
    followed = [tree.behind(node) for node in range(-1, len(tree))]
    assert [token for tokens in followed for token in tokens] == tree.edges
    assert all(followed[1:]), "a node is what others follow"


def test_texts_may_be_longer_than_a_stack_is_deep() -> None:
    tree = TokenTree([[1] * 5_000, [1] * 4_999 + [2]])
    assert (len(tree), tree.height, len(tree.edges)) == (4_999, 4_999, 5_001)
