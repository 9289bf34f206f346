"""Texts with a common beginning stand together, and nothing else moves."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from sgdsl.prefix_order import CHUNK, prefix_order

CHUNKS = [letter * CHUNK for letter in "abc"]

texts = st.lists(
    st.builds(
        lambda chunks, rest: "".join(chunks) + rest,
        st.lists(st.sampled_from(CHUNKS), max_size=4),
        st.text("abc", max_size=5),
    ),
    max_size=30,
)


def chunks_of(text: str) -> list[str]:
    return [text[at : at + CHUNK] for at in range(0, len(text) - CHUNK + 1, CHUNK)]


@given(texts)
def test_every_common_beginning_is_one_block(texts: list[str]) -> None:
    order = prefix_order(texts)
    assert sorted(order) == list(range(len(texts)))
    for depth in range(1, 5):
        beginnings = [tuple(chunks_of(texts[index])[:depth]) for index in order]
        changes = [after for before, after in pairwise([(), *beginnings]) if before != after]
        whole = [each for each in changes if len(each) == depth]
        assert len(whole) == len(set(whole))


@given(texts)
def test_groups_stand_in_the_order_of_their_first_members(texts: list[str]) -> None:
    order = prefix_order(texts)
    first: dict[tuple[str, ...], int] = {}
    for index in order:
        for depth in range(1, 5):
            first.setdefault(tuple(chunks_of(texts[index])[:depth]), index)
    for index in order:
        for depth in range(1, len(chunks_of(texts[index])) + 1):
            assert first[tuple(chunks_of(texts[index])[:depth])] <= index


def test_texts_that_share_all_or_nothing_stay_as_they_are() -> None:
    common = "x" * 1000
    assert prefix_order([f"{common}{n}" for n in (3, 1, 2)]) == [0, 1, 2]
    assert prefix_order([f"{n}{common}" for n in (3, 1, 2)]) == [0, 1, 2]
    assert prefix_order(["a" * CHUNK, "b" * CHUNK, "a" * CHUNK + "!"]) == [0, 2, 1]
    assert prefix_order([]) == []


def test_long_texts_do_not_nest_too_deep() -> None:
    long = "x" * (CHUNK * 5000)
    assert prefix_order([long, "y", long]) == [0, 2, 1]
