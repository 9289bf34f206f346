"""Runs of characters: what is known of them without walking, against walking every token."""

from __future__ import annotations

import random

import numpy as np
import pytest

from grammars import Compiler, Constraint, JsonSchema, Matcher, Regex, Vocabulary, char_walks
from grammars.char_walks import BORDER, BROKEN, CharWalk
from grammars.derive import walk as derive
from tests.grammars.vocabularies import allowed_tokens, small_vocabulary

SLACK = 100_000
VOCABULARY = small_vocabulary()
LACKING = small_vocabulary(missing=[0xC3, 0xF1, 0x31, 0x01], seed=1)

STEPS = np.zeros((4, 256), dtype=np.uint8)
"""Of `[a-z ]|"[0-9]|\\xc3[\\xa0-\\xaf]`."""
STEPS[1, [*b"abcdefghijklmnopqrstuvwxyz "]] = BORDER
STEPS[1, ord('"')], STEPS[1, 0xC3] = 2, 3
STEPS[2, [*b"0123456789"]] = BORDER
STEPS[3, 0xA0:0xB0] = BORDER


@pytest.mark.parametrize("vocabulary", [VOCABULARY, LACKING])
def test_the_tokens_below_a_node_are_neighbours(vocabulary: Vocabulary) -> None:
    trie = vocabulary.trie
    below: list[set[int]] = [set() for _ in range(trie.num_nodes)]
    for token, end in enumerate(trie.token_node.tolist()):
        node = end
        while True:
            below[node].add(token)
            if not node:
                break
            node = trie.parent.item(node)
    for node, tokens in enumerate(below):
        first, last = trie.first_below.item(node), trie.last_below.item(node)
        assert set(trie.in_order[first:last].tolist()) == tokens
        ends_here = trie.in_order[first : first + trie.num_at.item(node)]
        assert all(trie.token_node[ends_here] == node)


def expected_below(node: int) -> tuple[dict[int, int], dict[int, int]]:
    """Byte by byte: the codes of the tokens inside of a run that begins at `node`; the nodes next
    to it, with the whole strings before.
    """
    trie = VOCABULARY.trie
    stride = trie.longest + 1
    inside: dict[int, int] = {}
    outside: dict[int, int] = {}
    tokens: dict[int, list[int]] = {}
    for token, end in enumerate(trie.token_node.tolist()):
        tokens.setdefault(end, []).append(token)
    pending = [(node, BORDER, 0)]
    while pending:
        here, part, count = pending.pop()
        for child in np.flatnonzero(trie.parent[1:] == here) + 1:
            after = int(STEPS[part, trie.edge_byte[child]])
            if after == BROKEN:
                if part == BORDER:
                    outside[int(child)] = count
                continue
            whole = count + (after == BORDER)
            for token in tokens.get(int(child), []):
                inside[token] = (after - 1) * stride + whole
            pending.append((int(child), after, whole))
    return inside, outside


def test_a_run_from_any_node_is_known_without_walking() -> None:
    trie, walk = VOCABULARY.trie, CharWalk(STEPS, VOCABULARY.trie)
    for node in [0, *np.flatnonzero(trie.num_children).tolist()]:
        found = walk.below(np.array([node]))
        inside, outside = expected_below(node)
        assert dict(zip(found.tokens.tolist(), found.codes.tolist(), strict=True)) == inside
        assert dict(zip(found.exits.tolist(), found.counts.tolist(), strict=True)) == outside


@pytest.mark.parametrize("letters", [b"ab", b"abcdefghijklmnopqrstuvwxyz ", b""])
def test_a_walk_is_the_same_when_it_begins_with_that_of_some_bytes(letters: bytes) -> None:
    trie = VOCABULARY.trie
    some = np.zeros((2, 256), dtype=np.uint8)
    some[1, [*letters]] = BORDER
    whole = CharWalk(STEPS, trie)
    made = CharWalk(STEPS, trie, CharWalk(some, trie))
    for node in [0, *np.flatnonzero(trie.num_children).tolist()]:
        for left, right in zip(
            made.below(np.array([node])), whole.below(np.array([node])), strict=True
        ):
            assert (left == right).all()


def test_a_run_from_many_nodes_is_that_from_each() -> None:
    trie, walk = VOCABULARY.trie, CharWalk(STEPS, VOCABULARY.trie)
    nodes = trie.levels[0]
    inner = np.arange(nodes.start, nodes.stop)[trie.num_children[nodes] > 0]
    found = walk.below(inner)
    inside: dict[int, int] = {}
    outside: dict[int, int] = {}
    for node in inner.tolist():
        more, others = expected_below(node)
        inside |= more
        outside |= others
    assert dict(zip(found.tokens.tolist(), found.codes.tolist(), strict=True)) == inside
    assert dict(zip(found.exits.tolist(), found.counts.tolist(), strict=True)) == outside


def test_what_nearly_all_tokens_stay_inside_of_is_told_by_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(char_walks, "MOST", 1)
    trie = VOCABULARY.trie
    steps = np.zeros((2, 256), dtype=np.uint8)
    steps[1] = BORDER
    steps[1, ord("}")] = BROKEN
    walk = CharWalk(steps, trie)
    nodes = trie.levels[0]
    borders = np.arange(nodes.start, nodes.stop)
    borders = borders[(trie.num_children[nodes] > 0) & (trie.edge_byte[nodes] != ord("}"))]
    seen = []
    for left_out in range(len(borders)):
        some = np.delete(borders, left_out)
        missing = walk.missing_below(some)
        if missing is None:
            continue
        kept = np.delete(walk.whole.tokens, missing)
        below = walk.below(some)
        assert sorted(kept.tolist()) == sorted(below.tokens.tolist())
        exits, counts = walk.exits_below(some)
        assert (exits == below.exits).all() and (counts == below.counts).all()
        codes = np.bincount(np.delete(walk.whole.codes, missing)).nonzero()[0]
        assert walk.codes_but(missing) == codes.tolist()
        seen.append(left_out)
    assert seen


def string(**keywords: object) -> JsonSchema:
    return JsonSchema({"type": "string", **keywords})


@pytest.mark.parametrize(
    "constraint",
    [
        Regex('[^"]{2,5}"'),
        Regex('[^"]{0,3}(?:"[^"]{1,2}){2}'),  # one run after another
        Regex("[a-z]{3,}(?:1[a-z]{0,4})?"),
        Regex('x[^"ж]{1,9}ж'),  # leaves by the first byte of a character that may not follow
        Regex("(?:[a-z ]|[0-9][a-z]){2,6},"),
        Regex(".{0,40}"),
        string(minLength=3, maxLength=6),
        string(minLength=20),
        string(pattern="^(?:/[^/]*)*$"),  # an escape may stay in the run or leave it
        string(pattern="^[a-c]{1,4}-[^-]{2,}$"),
        JsonSchema({"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}),
        JsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
    ],
)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, LACKING], ids=["whole", "lacking"])
def test_masks_and_costs_are_those_of_every_token_by_itself(
    constraint: Constraint, vocabulary: Vocabulary
) -> None:
    rng = random.Random(0)
    grammar = Compiler(vocabulary, max_lazy_seconds=60.0).compile(constraint)
    for _ in range(2):
        matcher = Matcher(grammar, max_tokens=SLACK)
        while not matcher.is_terminated and matcher.remaining > SLACK - 9:
            if not matcher.state.notes:
                check_costs(matcher)
            longer = [t for t in allowed_tokens(matcher) if t not in vocabulary.eos_token_ids]
            matcher.accept_token(rng.choice(longer or allowed_tokens(matcher)))


def check_costs(matcher: Matcher) -> None:
    """For every budget, the tokens that the mask affords are those whose own state does."""
    language, vocabulary = matcher._language, matcher.grammar.vocabulary
    completions = language._completions
    costs = {}
    for token_id in range(vocabulary.size):
        data = vocabulary.token_bytes(token_id)
        if data is not None:
            following = derive(language._algebra, matcher.state, data)
            if completions.is_alive(following):
                costs[token_id] = completions.cost(following)
    mask = language.mask(matcher.state)
    apart = {*mask.unsure, *mask.crossing}  # the matcher decides these one by one: see below
    decided = {token_id: cost for token_id, cost in costs.items() if token_id not in apart}
    possible = {cost for cost in decided.values() if cost < 1 << 30}
    if apart:
        assert mask.dearest >= max(possible, default=-1)
    else:
        assert mask.dearest == max(possible, default=-1)
    for budget in sorted({*possible, 0, 3}):
        found = vocabulary.unpack(mask.affordable_row(budget)).tolist()
        assert [t for t in found if t not in apart] == [
            token_id for token_id, cost in decided.items() if cost <= budget
        ]
    allowed = set(allowed_tokens(matcher))
    for token_id in apart:
        assert (token_id in allowed) == (costs.get(token_id, 1 << 30) < matcher.remaining)
