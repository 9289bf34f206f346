"""Other engines as judges: what they are right about, ours must say too.

Each is asked only where it is known to be right. interegular: membership and emptiness of plain
patterns. outlines-core: masks of languages in which no text begins another, since it drops tokens
behind a place where the text is complete. llguidance: masks of patterns and grammars, verdicts on
the corpus and on random schemas.
"""

from __future__ import annotations

import json
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.corpus import Case, corpus
from benchmarks.engines import Cursor, Engine, constraint_of, engine_of
from grammars import Compiler, GrammarError, JsonSchema, Matcher, Regex, accepts
from grammars.algebra import Algebra
from grammars.derive import has_string
from tests.grammars.vocabularies import small_vocabulary

VOCABULARY = small_vocabulary()
COMPILER = Compiler(VOCABULARY)
TOKENS = [VOCABULARY.token_bytes(token_id) for token_id in range(VOCABULARY.size)]
STOPS = list(VOCABULARY.eos_token_ids)
SLACK = 100_000

CASES = corpus()

_engines: dict[str, Engine] = {}


def package(name: str) -> ModuleType:
    """The module, or the test is skipped with the reason."""
    found: ModuleType = pytest.importorskip(
        name, reason=f"{name} is not installed; it is one of the development extras"
    )
    return found


def engine(name: str, module: str) -> Engine:
    package(module)
    if name not in _engines:
        _engines[name] = engine_of(name, TOKENS, STOPS, None)
    return _engines[name]


# -- plain patterns, of what all engines read in one way -------------------------------------------

_atoms = st.sampled_from(["a", "b", "ab", "1", "[ab]", "[^a]", "[0-9]", "[a-c1]", "x", "é"])
_quantifiers = st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}"])


def _composed(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantified = st.tuples(parts, _quantifiers).map(lambda p: f"({p[0]}){p[1]}")
    some = st.lists(quantified, min_size=1, max_size=3)
    return st.one_of(some.map("".join), some.map(lambda parts: f"({'|'.join(parts)})"))


patterns = st.recursive(_atoms, _composed, max_leaves=6)
flat_patterns = _composed(_atoms)
"""Without a repetition inside of another: there interegular may take minutes."""
texts = st.text(alphabet="abcx1é", max_size=7)


@given(flat_patterns, st.lists(texts, min_size=3, max_size=8))
@settings(max_examples=100, deadline=None)
def test_membership_is_that_of_interegular(pattern: str, tried: list[str]) -> None:
    fsm = package("interegular").parse_pattern(pattern).to_fsm()
    for text in tried:
        assert accepts(Regex(pattern), text) == fsm.accepts(text)


@given(flat_patterns, flat_patterns)
@settings(max_examples=60, deadline=None)
def test_two_patterns_overlap_where_interegular_says_so(left: str, right: str) -> None:
    machines = [package("interegular").parse_pattern(pattern) for pattern in (left, right)]
    alphabet = _common_alphabet(machines)
    both = machines[0].to_fsm(alphabet) & machines[1].to_fsm(alphabet)
    algebra = Algebra()
    met = algebra.intersection([Regex(left).lower(algebra), Regex(right).lower(algebra)])
    assert has_string(algebra, met) == (not both.empty())


def _common_alphabet(machines: list[Any]) -> Any:
    alphabet, _ = type(machines[0].get_alphabet(_no_flags())).union(
        *(machine.get_alphabet(_no_flags()) for machine in machines)
    )
    return alphabet


def _no_flags() -> Any:
    from interegular.patterns import REFlags

    return REFlags(0)


# -- masks -----------------------------------------------------------------------------------------


def same_masks(theirs: Engine, cursor: Cursor, ours: Matcher, rng: random.Random) -> None:
    """Walks at random, and compares the masks on the way; their stop token may be one of ours."""
    row = np.zeros(VOCABULARY.num_words, dtype=np.int32)
    for _ in range(8):
        ours.fill_bitmask(row)
        cursor.fill()
        allowed = texts_of(theirs)
        expected = {TOKENS[token_id] for token_id in VOCABULARY.unpack(row)}
        if len(allowed) == 1:  # llguidance leaves one token where the text is forced
            assert allowed.keys() <= expected
        else:
            assert allowed.keys() == expected
        going_on = sorted(data for data in allowed if data is not None)
        if not going_on:
            return
        token_id = allowed[rng.choice(going_on)]
        ours.accept_token(token_id)
        cursor.accept(token_id)


def texts_of(theirs: Engine) -> dict[bytes | None, int]:
    """What the tokens write that their mask allows, None for a stop token; and one of the tokens.

    Some of the vocabulary's tokens write the same; llguidance allows one of them.
    """
    return {TOKENS[token_id]: int(token_id) for token_id in VOCABULARY.unpack(theirs.row)}


@given(patterns, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_masks_are_those_of_outlines_core(pattern: str, seed: int) -> None:
    """The mark at the end makes every complete text final."""
    theirs = engine("outlines-core", "outlines_core")
    marked = f"({pattern.replace('[^a]', '[^a!]')})!"
    cursor = theirs.compile("regex", marked)()
    matcher = Matcher(COMPILER.compile(Regex(marked)), max_tokens=SLACK)
    same_masks(theirs, cursor, matcher, random.Random(seed))


def test_the_known_fault_of_outlines_core() -> None:
    """When this fails, the fault is gone: say so in `grammars.outlines`."""
    theirs = engine("outlines-core", "outlines_core")
    cursor = theirs.compile("regex", r"[0-9]+(\.[0-9]+)?")()
    cursor.accept(TOKENS.index(b"1"))
    cursor.fill()
    allowed = [TOKENS[token_id] for token_id in VOCABULARY.unpack(theirs.row)]
    assert b"2" in allowed and b"." not in allowed


@given(patterns, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_masks_of_patterns_are_those_of_llguidance(pattern: str, seed: int) -> None:
    theirs = engine("llguidance", "llguidance")
    cursor = theirs.compile("regex", pattern)()
    matcher = Matcher(COMPILER.compile(Regex(pattern)), max_tokens=SLACK)
    same_masks(theirs, cursor, matcher, random.Random(seed))


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kind in {"regex", "grammar"}], ids=lambda case: case.name
)
def test_masks_of_the_corpus_are_those_of_llguidance(case: Case) -> None:
    theirs = engine("llguidance", "llguidance")
    make = theirs.compile(case.kind, case.spec)
    grammar = COMPILER.compile(constraint_of(case.kind, case.spec))
    for seed in range(5):
        same_masks(theirs, make(), Matcher(grammar, max_tokens=SLACK), random.Random(seed))


# -- verdicts --------------------------------------------------------------------------------------


def reads(theirs: Engine, cursor: Cursor, text: str) -> bool:
    """Whether their masks let the text's bytes, and then a stop token, through."""
    for byte in text.encode():
        cursor.fill()
        token_id = texts_of(theirs).get(bytes([byte]))
        if token_id is None:
            return False
        cursor.accept(token_id)
    cursor.fill()
    return None in texts_of(theirs)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind == "schema"], ids=lambda case: case.name
)
def test_llguidance_accepts_what_is_valid_in_the_corpus(case: Case) -> None:
    """What it does not refuse. (That it accepts 30 February is its business.)"""
    theirs = engine("llguidance", "llguidance")
    try:
        make = theirs.compile("schema", case.spec)
    except Exception as error:  # noqa: BLE001 -- it is not ours
        pytest.skip(f"refused by llguidance: {error!s:.80}")
    for text, right in case.texts():
        if right:
            assert reads(theirs, make(), text), text


_numbers = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={"minimum": st.integers(-30, 5), "maximum": st.integers(6, 120)},
)
_strings = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": st.integers(0, 2), "maxLength": st.integers(2, 4)},
)
_leaves: st.SearchStrategy[Any] = st.one_of(
    _numbers,
    _strings,
    st.just({"type": "boolean"}),
    st.lists(st.sampled_from(["a", 1, None]), min_size=1, unique=True).map(lambda v: {"enum": v}),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    records = st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
        lambda properties: {
            "type": "object",
            "properties": properties,
            "required": sorted(properties)[:1],
            "additionalProperties": False,
        }
    )
    lists = st.tuples(inner, st.integers(0, 1), st.integers(1, 3)).map(
        lambda made: {"type": "array", "items": made[0], "minItems": made[1], "maxItems": made[2]}
    )
    return st.one_of(records, lists, st.lists(inner, min_size=1, max_size=2).map(_any_of))


def _any_of(options: list[Any]) -> Any:
    return {"anyOf": options}


_schemas = st.recursive(_leaves, _nested, max_leaves=5)
_values = st.recursive(
    st.sampled_from([None, True, 0, 1, -5, 7, 121, 0.5, "", "a", "éé", "abcde", "\n"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(_schemas, st.lists(_values, min_size=4, max_size=8))
@settings(max_examples=100, deadline=None)
def test_verdicts_on_random_schemas_are_those_of_llguidance(schema: Any, values: list[Any]) -> None:
    theirs = engine("llguidance", "llguidance")
    make = theirs.compile("schema", schema)
    try:
        grammar = COMPILER.compile(JsonSchema(schema))
    except GrammarError:
        return
    for value in values:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert grammar.contains(text) == reads(theirs, make(), text), text
