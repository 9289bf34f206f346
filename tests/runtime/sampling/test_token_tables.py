"""Tables on a device against the same tables on the host, row by row, and against the matchers."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import assume, given, strategies as st

from grammars import Choices, Compiler, Matcher, Regex
from grammars.errors import EmptyLanguageError
from grammars.spelling import UNREACHABLE
from grammars.token_table import DEAD, START, TokenTable
from runtime.sampling.token_tables import TokenTables
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import allowed_tokens, small_vocabulary, stop_token

VOCABULARY = small_vocabulary()


def table_of(pattern: str) -> TokenTable | None:
    try:
        return TokenTable.of(Compiler(VOCABULARY).compile(Regex(pattern)), max_states=40)
    except EmptyLanguageError:
        return None


@given(st.lists(sg.patterns, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_masks_and_steps_are_those_of_the_host(patterns: list[str], seed: int) -> None:
    """All states of all tables in one batch, under budgets of every size."""
    tables = [table for table in map(table_of, patterns) if table is not None]
    assume(tables)
    together = TokenTables(tables)
    random_number = np.random.default_rng(seed)
    rows = [(table, state) for table in tables for state in range(len(table.min_tokens))]
    random_number.shuffle(rows)
    budgets = random_number.choice([0, 1, 2, 3, 5, 8, UNREACHABLE], size=len(rows))
    states = torch.tensor([together.start(table) - START + state for table, state in rows])
    found = together.allowed(states, torch.from_numpy(budgets.astype(np.int64)))
    tokens = torch.from_numpy(random_number.integers(0, VOCABULARY.size, len(rows)))
    after = together.advance(states, tokens)
    for index, (table, state) in enumerate(rows):
        row = np.zeros(VOCABULARY.num_words, dtype=np.int32)
        table.fill_bitmask(row, state, remaining=int(budgets[index]))
        assert found[index].nonzero()[:, 0].tolist() == VOCABULARY.unpack(row).tolist()
        wanted = table.advance(state, int(tokens[index]))
        assert int(after[index]) - (together.start(table) - START) == wanted
        assert bool(together.is_complete(states)[index]) == table.is_complete(state)


def test_a_walk_on_the_device_is_what_the_matcher_allows() -> None:
    compiler, rng = Compiler(VOCABULARY), random.Random(3)
    constraints = [Regex("[0-9]{3}-[ab]+"), Choices(("red", "green", "reddish"))]
    grammars = [compiler.compile(each) for each in constraints]
    tables = [TokenTable.of(grammar) for grammar in grammars]
    known = [table for table in tables if table is not None]
    assert len(known) == len(grammars), "small constraints have tables"
    together = TokenTables(known)
    matchers = [Matcher(grammar, max_tokens=100_000) for grammar in grammars]
    states = torch.tensor([together.start(table) for table in known])
    budget = torch.full((2,), UNREACHABLE)
    for _ in range(3):
        allowed = together.allowed(states, budget)
        drawn = []
        for row, matcher in enumerate(matchers):
            wanted = allowed_tokens(matcher)
            assert allowed[row].nonzero()[:, 0].tolist() == wanted
            drawn.append(rng.choice([t for t in wanted if t != stop_token(VOCABULARY)]))
            matcher.accept_token(drawn[-1])
        states = together.advance(states, torch.tensor(drawn))


def test_from_the_dead_state_nothing_is_allowed_and_nothing_leads_away() -> None:
    first, second = table_of("ab"), table_of("[cd]{2}")
    assert first is not None and second is not None
    together = TokenTables([first, second])
    dead = torch.tensor([together.start(each) - START + DEAD for each in (first, second)])
    assert not together.allowed(dead, torch.full((2,), UNREACHABLE)).any()
    assert torch.equal(together.advance(dead, torch.tensor([0, 5])), dead)
