"""Masks without costs, against those with them."""

from __future__ import annotations

import random

from hypothesis import given, settings, strategies as st

from grammars import GrammarError, JsonSchema, Matcher, Regex
from grammars.constraint import Constraint
from tests.grammars import strategies as sg
from tests.grammars.test_masks import LACKING, SLACK, VOCABULARY, patient
from tests.grammars.vocabularies import allowed_tokens

CONSTRAINTS: st.SearchStrategy[Constraint] = st.one_of(
    sg.patterns.map(Regex), sg.schemas.map(JsonSchema)
)


@given(CONSTRAINTS, st.booleans(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_mask_without_costs_has_the_same_tokens_and_no_lower_bound(
    constraint: Constraint, lacking: bool, seed: int
) -> None:
    rng = random.Random(seed)
    vocabulary = LACKING if lacking else VOCABULARY
    try:
        matcher = Matcher(patient(vocabulary).compile(constraint), max_tokens=SLACK)
    except GrammarError:  # refused, or without a text
        return
    language = matcher._language
    for _ in range(6):
        node = matcher.state
        if not node.notes:
            assert language._bounds.bound(node) >= language._completions.cost(node)
        found, exact = language._bounded(node), language.mask(node)
        assert not exact.is_bounded
        assert (found.row == exact.row).all()
        assert found.dearest >= exact.dearest
        for cost in (exact.dearest - 1, exact.dearest, found.dearest):
            excess = language.excess(node)
            whole = language.whole_mask(node, cost + excess)
            assert (whole is None) == (cost < exact.dearest)
        longer = [t for t in allowed_tokens(matcher) if t not in vocabulary.eos_token_ids]
        if not longer:
            break
        matcher.accept_token(rng.choice(longer))
