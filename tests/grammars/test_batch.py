"""A batch's bitmasks against those of its matchers one by one; the table that they are rows of."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from grammars import CompileBudgetError, Compiler, Matcher, Regex, fill_bitmasks
from grammars.masks import Mask
from grammars.row_table import ALL_ROW, RowTable
from grammars.trie import Int32
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import allowed_tokens, small_vocabulary

VOCABULARY = small_vocabulary()
OTHER = Compiler(VOCABULARY)


def some_place(matcher: Matcher, rng: random.Random) -> Matcher:
    """The matcher after a few draws; it may have ended."""
    for _ in range(rng.randrange(5)):
        if matcher.is_terminated:
            break
        matcher.accept_token(rng.choice(allowed_tokens(matcher)))
    return matcher


def one_by_one(matchers: list[Matcher | None]) -> list[list[int]]:
    rows = np.full((len(matchers), VOCABULARY.num_words), -1, dtype=np.int32)
    for matcher, row in zip(matchers, rows, strict=True):
        if matcher is not None:
            matcher.fill_bitmask(row)
    return [row.tolist() for row in rows]


@given(
    st.lists(st.one_of(st.none(), sg.patterns), max_size=9),
    st.sampled_from([0, 4_000, 1 << 20]),
    st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_a_batch_is_filled_as_each_of_its_rows(
    patterns: list[str | None], max_mask_bytes: int, seed: int
) -> None:
    """Whatever the cache has room for, whatever the budgets, with more than one compiler."""
    rng = random.Random(seed)
    compilers = [Compiler(VOCABULARY, max_mask_bytes=max_mask_bytes), OTHER]
    matchers: list[Matcher | None] = []
    for pattern in patterns:
        if pattern is None:
            matchers.append(None)
            continue
        grammar = rng.choice(compilers).compile(Regex(pattern))
        slack = rng.choice([0, 1, 3, 500])
        matchers.append(some_place(Matcher(grammar, max_tokens=grammar.min_tokens + slack), rng))
    rows = np.zeros((len(matchers), VOCABULARY.num_words), dtype=np.int32)
    fill_bitmasks(matchers, rows)
    assert [row.tolist() for row in rows] == one_by_one(matchers)


class Costly(Matcher):
    """Its mask costs more than a step may: at once, or when it is filled after all."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__(OTHER.compile(Regex("[a-c]+")), max_tokens=9)
        self._at_once = at_once

    def whole_mask(self) -> Mask | None:
        if self._at_once:
            raise CompileBudgetError("too costly")
        return None

    def fill_bitmask(self, row: Int32) -> None:
        row[0] = 5
        raise CompileBudgetError("too costly")


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_row_whose_mask_costs_too_much_is_told_of_and_the_others_are_filled(
    at_once: bool, place: int
) -> None:
    matchers: list[Matcher | None] = [Matcher(OTHER.compile(Regex("[a-c]+")), max_tokens=9), None]
    expected = one_by_one(matchers)
    expected.insert(place, [-1] * VOCABULARY.num_words)
    matchers.insert(place, Costly(at_once=at_once))
    rows = np.zeros((3, VOCABULARY.num_words), dtype=np.int32)
    told: list[tuple[int, str]] = []
    fill_bitmasks(matchers, rows, on_error=lambda index, error: told.append((index, str(error))))
    assert told == [(place, "too costly")]
    assert [row.tolist() for row in rows] == expected
    with pytest.raises(CompileBudgetError):
        fill_bitmasks(matchers, rows)


def test_rows_that_are_no_block_of_memory_are_filled_too() -> None:
    matchers = [Matcher(OTHER.compile(Regex("[a-c]+")), max_tokens=9), None]
    wide = np.zeros((4, VOCABULARY.num_words + 3), dtype=np.int32)
    fill_bitmasks(matchers, wide[::2, :-3])
    assert [row.tolist() for row in wide[::2, :-3]] == one_by_one(matchers)
    assert not wide[1::2].any() and not wide[:, -3:].any()


def test_a_row_belongs_to_its_mask_for_as_long_as_that_lives() -> None:
    """A cache for one mask: each new one throws the last out, whose row may then be used again."""
    compiler = Compiler(VOCABULARY, max_mask_bytes=1_300)
    grammar = compiler.compile(Regex("a{1,3}b{1,3}c{1,3}"))
    matcher = Matcher(grammar, max_tokens=50)
    held: list[Mask] = []
    for text in (b"", b"a", b"a", b"b", b"c"):
        matcher.accept_bytes(text)
        held += [mask] if (mask := matcher.whole_mask()) else []
    assert len(held) == 5 and held[-1].row_id is None  # the table is full: the row is its own
    for mask in held:
        assert VOCABULARY.count(mask.row) == mask.num_allowed == len(mask.token_ids)
    taken = [mask.row_id for mask in held if mask.row_id is not None]
    assert len(taken) == len(set(taken)) <= 2
    held.clear()
    del mask
    other = Matcher(compiler.compile(Regex("xyz")), max_tokens=9).whole_mask()
    assert other is not None and other.row_id in taken


def test_a_table_gives_each_row_to_one_at_a_time() -> None:
    table = RowTable(3, max_rows=40)
    claimed: list[int] = []

    def claim() -> None:
        for _ in range(10):
            row_id = table.claim()
            assert row_id is not None
            claimed.append(row_id)

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == list(range(1, 41)) and ALL_ROW not in claimed
    assert table.claim() is None
    table.give_back(7)
    assert (table.claim(), table.claim()) == (7, None)
