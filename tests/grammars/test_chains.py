"""Chains of states: what is known of them without walking, against walking every token."""

from __future__ import annotations

import random

import pytest

from grammars import (
    Cfg,
    Compiler,
    Constraint,
    JsonSchema,
    Matcher,
    Regex,
    char_walks,
    common_sets,
    trie_walk,
)
from grammars.trie_walk import TrieWalks
from tests.grammars.test_char_walks import LACKING, SLACK, VOCABULARY, check_costs
from tests.grammars.vocabularies import allowed_tokens

LANGUAGE = """
start: (name "=" value ";")+
name: /[a-z_][a-z0-9_]{0,3}/
value: name | /[0-9a-f]{2,3}/ | "\\"" /[^"]{0,5}/ "\\""
"""


SETS = [
    sum(1 << byte for byte in text) for text in (b"ab,", b"abc", b"ab", b"bc", b"a", b"b", b"01")
]
"""Narrow ones, of which the vocabulary has longer tokens."""


def string(**keywords: object) -> JsonSchema:
    return JsonSchema({"type": "string", **keywords})


CONSTRAINTS: list[Constraint] = [
    Regex("[a-z](?:[a-z-]{0,6}[a-z])?(?:,[a-z](?:[a-z-]{0,6}[a-z])?)*"),
    Regex("[a-z0-9]{2}[0-9]{1,3}"),  # a chain that ends where letters and digits part
    Regex('"[^"]*":2|"[^"]*":0'),
    Regex("(?:[a-z]{2,5}|[a-z]{1,3}0),"),
    Regex("(?!abba)[ab,]{1,6}"),
    Regex("[^b]{3}b*|[^a]{2,4}a"),
    string(pattern="^[a-z](?:[a-z-]{0,4}[a-z])?$", maxLength=5),
    string(pattern="^[^,]+, .+$", minLength=4, maxLength=9),
    JsonSchema(
        {
            "type": "object",
            "properties": {"ab": {"type": "integer"}},
            "additionalProperties": {"type": "string", "pattern": "a"},
        }
    ),
    Cfg(LANGUAGE),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=range(len(CONSTRAINTS)))
@pytest.mark.parametrize("lacking", [False, True], ids=["whole", "lacking"])
def test_masks_and_costs_along_chains_are_those_of_every_token_by_itself(
    constraint: Constraint, lacking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = LACKING if lacking else VOCABULARY
    monkeypatch.setattr(common_sets, "SETS", SETS)
    monkeypatch.setattr(trie_walk, "MANY_BELOW", 1)
    monkeypatch.setattr(char_walks, "MOST", 1)
    followed = []
    follow = TrieWalks._follow

    def noted(self: TrieWalks, state_id: int, *rest: object) -> object:
        followed.append(state_id)
        return follow(self, state_id, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TrieWalks, "_follow", noted)
    rng = random.Random(0)
    grammar = Compiler(vocabulary, max_lazy_seconds=60.0).compile(constraint)
    for _ in range(3):
        matcher = Matcher(grammar, max_tokens=SLACK)
        while not matcher.is_terminated and matcher.remaining > SLACK - 9:
            check_costs(matcher)
            longer = [t for t in allowed_tokens(matcher) if t not in vocabulary.eos_token_ids]
            matcher.accept_token(rng.choice(longer or allowed_tokens(matcher)))
    assert followed
