"""`explain`: every fault, what says nothing, and facts that agree with the texts themselves."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Annotated, Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import Field

from grammars import (
    Alternation,
    Choices,
    Compiler,
    Concatenation,
    Constraint,
    Explanation,
    JsonSchema,
    Regex,
    TypeOf,
    accepts,
    explain,
)
from grammars.algebra import Algebra
from grammars.errors import GrammarError
from grammars.explanation import MAX_TEXTS, refusal
from grammars.extent import extent
from tests.grammars.json_schemas import schemas
from tests.grammars.strategies import finite_patterns, patterns
from tests.grammars.vocabularies import small_vocabulary

OVER_AB = [
    "".join(letters) for size in range(9) for letters in itertools.product("ab", repeat=size)
]


def schema(**keywords: Any) -> Explanation:
    return explain(JsonSchema(keywords))


def places(found: Explanation) -> dict[int | str | None, str]:
    return {fault.position: fault.kind for fault in found.faults}


# -- faults ----------------------------------------------------------------------------------------


def test_every_fault_is_told_with_its_place() -> None:
    found = schema(
        properties={
            "a": {"type": "string", "divisibleBy": 4},
            "b/c": {"type": "strin"},
            "d": {"anyOf": [{"type": "integer", "minimum": "1"}, {"type": "boolean"}]},
            "e": {"items": {"format": "regex"}},
            "f": {"$ref": "#/$defs/missing"},
            "g": 5,
            "h": {"pattern": "a(b"},
        },
    )
    assert places(found) == {
        "/properties/a/divisibleBy": "unsupported",
        "/properties/b~1c/type": "malformed",
        "/properties/d/anyOf/0/minimum": "malformed",
        "/properties/e/items/format": "unsupported",
        "/properties/f/$ref": "malformed",
        "/properties/g": "malformed",
        "/properties/h/pattern": "malformed",
    }
    assert not found.is_supported
    assert not found.has_more_faults
    assert found.samples == ()
    assert found.automaton is None


def test_faults_of_a_document_that_is_referred_to_are_told() -> None:
    other = {"type": "array", "items": {"disallow": 1}, "minItems": -1}
    found = explain(JsonSchema({"$ref": "urn:other"}, resources={"urn:other": other}))
    assert places(found) == {
        "urn:other#/items/disallow": "unsupported",
        "urn:other#/minItems": "malformed",
    }


def test_what_is_never_reached_is_no_fault() -> None:
    assert schema(**{"type": "null", "$defs": {"x": {"divisibleBy": 2}}}).is_supported


def test_many_faults_are_cut_and_it_is_said() -> None:
    found = schema(properties={f"p{i}": {"extends": 1} for i in range(40)})
    assert len(found.faults) == 32
    assert found.has_more_faults


def test_exactly_one_fault_leaves_no_more() -> None:
    found = schema(nullable=True)
    assert places(found) == {"/nullable": "unsupported"}
    assert not found.has_more_faults


@pytest.mark.parametrize(
    ("constraint", "kind", "position"),
    [
        (TypeOf(Annotated[int, Field(gt=3, lt=4)]), "unsatisfiable", ""),
        (JsonSchema({"type": "integer", "minimum": 3, "maximum": 2}), "unsatisfiable", ""),
        (Concatenation("x", JsonSchema({"nullable": True})), "unsupported", "/nullable"),
        (TypeOf(list[int]), None, None),
        (Choices(["a"]), None, None),
    ],
)
def test_why_a_constraint_is_refused(
    constraint: Constraint, kind: str | None, position: str | None
) -> None:
    found = explain(constraint)
    assert [fault.kind for fault in found.faults] == ([kind] if kind else [])
    if position is not None:
        assert found.faults[0].position == position


def test_a_compile_beyond_its_budget_is_a_fault() -> None:
    many = {f"p{i}": {"const": i} for i in range(900)}
    found = explain(JsonSchema({"properties": many}), max_steps=800)
    assert [fault.kind for fault in found.faults] == ["too costly"]


def test_what_this_vocabulary_cannot_write_is_unsatisfiable() -> None:
    found = explain(Regex("[éê]"), small_vocabulary(missing=range(0x80, 0x100)))
    assert [fault.kind for fault in found.faults] == ["unsatisfiable"]


def test_what_is_no_constraint_at_all_is_told_the_same_way() -> None:
    with pytest.raises(GrammarError) as caught:
        Regex("a(b")
    found = refusal(caught.value)
    assert places(found) == {1: "malformed"}


def refusal_of(constraint: Constraint) -> str | None:
    try:
        Compiler(small_vocabulary()).compile(constraint)
    except GrammarError as error:
        return str(error)
    return None


@given(schemas())
@settings(max_examples=60)
def test_a_schema_is_supported_just_if_it_compiles(document: dict[str, Any]) -> None:
    constraint = JsonSchema(document)
    found = explain(constraint, num_samples=3, max_states=60)
    refused = refusal_of(constraint)
    assert found.is_supported == (refused is None)
    assert refused is None or refused in {fault.message for fault in found.faults}
    assert bool(found.samples) == found.is_supported
    for text in found.samples:
        assert accepts(constraint, text)
        constraint.parse(text)


# -- what says nothing -----------------------------------------------------------------------------


def test_annotations_and_typos_are_told() -> None:
    found = schema(
        **{
            "$id": "urn:x",
            "title": "t",
            "requried": ["a"],
            "x-internal": 1,
            "properties": {
                "a": {"type": "string", "format": "datetime"},
                "b": {"maxlength": 3},
                "c": {"type": "integer", "format": "int32"},
                "d": {"type": "string", "format": "date"},
            },
        }
    )
    assert found.is_supported
    assert [(note.kind, note.pointer, note.name, note.hint) for note in found.annotations] == [
        ("annotation", "/title", "title", None),
        ("unknown keyword", "/requried", "requried", "required"),
        ("unknown keyword", "/x-internal", "x-internal", None),
        ("format", "/properties/a/format", "datetime", "date-time"),
        ("unknown keyword", "/properties/b/maxlength", "maxlength", "maxLength"),
        ("format", "/properties/c/format", "int32", None),
    ]


def test_formats_that_are_ignored_are_annotations() -> None:
    document = {"type": "string", "format": "date"}
    found = explain(JsonSchema(document, formats="ignore"))
    assert [(note.kind, note.name) for note in found.annotations] == [("format", "date")]


def test_the_schemas_inside_of_a_constraint_are_looked_at() -> None:
    inner = JsonSchema({"typ": "string"})
    found = explain(Alternation("x", Concatenation("y", inner)))
    assert [note.hint for note in found.annotations] == ["type"]


# -- how many, how long ----------------------------------------------------------------------------


@given(finite_patterns)
@settings(max_examples=80)
def test_few_texts_are_counted_and_measured(pattern: str) -> None:
    there = [text for text in OVER_AB if re.fullmatch(pattern, text)]
    found = explain(Regex(pattern), num_samples=4)
    assert found.is_finite
    assert found.max_bytes is not None
    if found.max_bytes <= 8:
        assert found.num_texts == len(there)
        assert found.max_bytes == max(map(len, there))
        assert found.min_bytes == min(map(len, there))
        assert len(found.samples) >= min(len(there), 2)
        assert set(found.samples) <= set(there)


@given(patterns)
@settings(max_examples=80)
def test_structure_tells_the_length_that_the_states_tell(pattern: str) -> None:
    found = explain(Regex(pattern), max_states=2_000)
    algebra = Algebra()
    longest, is_exact = extent(algebra, Regex(pattern).lower(algebra))
    assert is_exact
    if found.is_finite:
        assert found.max_bytes == longest
    else:
        assert longest == math.inf
    for text in found.samples:
        assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    ("constraint", "is_finite", "longest"),
    [
        (JsonSchema({"type": "string"}), False, None),
        (JsonSchema({"type": "string", "maxLength": 5_000}), True, 60_002),
        (JsonSchema({"type": "string", "format": "uuid"}), True, 38),
        (JsonSchema({"$ref": "#/$defs/x", "$defs": {"x": {"items": {"$ref": "#/$defs/x"}}}}),)
        + (False, None),
        (TypeOf(bool), True, 5),
    ],
)
def test_whether_a_language_is_finite(
    constraint: Constraint, is_finite: bool, longest: int | None
) -> None:
    found = explain(constraint, max_states=1_000)
    assert found.is_finite is is_finite
    assert found.max_bytes == longest


def test_recursion_alone_has_no_longest_text() -> None:
    nested = {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 1}}
    found = explain(JsonSchema({"$ref": "#/$defs/x", "$defs": nested}), max_states=30)
    assert not found.is_whole
    assert found.is_finite is False
    assert found.num_texts is None


def test_an_intersection_has_a_bound_that_may_not_be_reached() -> None:
    document = {"type": "string", "maxLength": 3_000, "pattern": "^(ab|c)*$"}
    found = explain(JsonSchema(document), max_states=100)
    assert found.is_finite
    assert not found.is_max_exact


def test_texts_are_counted_up_to_a_number() -> None:
    assert explain(Regex("[a-z]{200}")).num_texts == MAX_TEXTS


@pytest.mark.parametrize(("low", "high", "number"), [(0, 3, 41), (3, 3, 24), (2, None, 60)])
def test_texts_that_may_not_repeat_themselves_are_counted(
    low: int, high: int | None, number: int
) -> None:
    # Of four items: 1 way to take none, 4 to take one, 12 two, 24 three, 24 four.
    bounds = {"minItems": low} | ({} if high is None else {"maxItems": high})
    item = {"type": "string", "pattern": "^[abcd]$"}
    found = schema(type="array", items=item, uniqueItems=True, **bounds)
    assert found.num_texts == number
    for text in found.samples:
        items = json.loads(text)
        assert len(set(items)) == len(items) >= low


def test_items_that_cannot_all_differ_are_unsatisfiable() -> None:
    item = {"type": "string", "pattern": "^[ab]{1,2}$", "not": {"const": "a"}}
    found = schema(type="array", items=item, uniqueItems=True, minItems=6)
    assert [fault.kind for fault in found.faults] == ["unsatisfiable"]


@pytest.mark.parametrize(
    "document",
    [
        {"type": "object", "additionalProperties": {"type": "boolean"}},
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 2},
    ],
)
def test_parts_that_may_not_repeat_can_go_on_for_ever(document: dict[str, Any]) -> None:
    found = explain(JsonSchema(document))
    assert found.is_finite is False
    assert len(found.samples) == 5
    for text in found.samples:
        assert accepts(JsonSchema(document), text)


# -- tokens, costs, samples ------------------------------------------------------------------------


def test_tokens_are_those_of_the_compiler() -> None:
    vocabulary = small_vocabulary()
    constraint = JsonSchema({"type": "array", "items": {"const": "aab"}, "minItems": 2})
    found = explain(constraint, vocabulary)
    assert found.min_tokens == Compiler(vocabulary).compile(constraint).min_tokens
    assert found.min_bytes == len('["aab","aab"]')
    assert explain(constraint).min_tokens is None


def test_a_compile_has_costs() -> None:
    found = explain(JsonSchema({"type": "object"}))
    assert found.num_expressions > 10
    assert found.seconds >= 0


def test_samples_are_the_same_for_a_seed_and_start_with_the_shortest() -> None:
    constraint = JsonSchema({"type": "object", "properties": {"name": {"type": "string"}}})
    first = explain(constraint, num_samples=8)
    assert first.samples == explain(constraint, num_samples=8).samples
    assert first.samples != explain(constraint, num_samples=8, seed=1).samples
    assert first.samples[0] == "{}"
    assert len(set(first.samples)) == 8


def test_samples_can_be_read() -> None:
    found = explain(JsonSchema({"type": "string", "minLength": 30}), num_samples=3)
    assert "".join(found.samples[1:]).isascii()


def test_samples_take_all_ways() -> None:
    words = [f"word{letter}" for letter in "abcdefgh"]
    assert set(explain(Choices(words), num_samples=8).samples) == set(words)


@given(st.integers(0, 1_000))
@settings(max_examples=10)
def test_samples_of_recursion_end(seed: int) -> None:
    tree = {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}
    found = explain(JsonSchema({"$ref": "#/$defs/t", "$defs": tree}), seed=seed, max_states=10)
    assert len(found.samples) >= 3
    for text in found.samples:
        assert isinstance(json.loads(text), list)


def test_an_explanation_is_json() -> None:
    found = explain(JsonSchema({"format": "x", "properties": {"a": {"type": "nul"}}}))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["is_supported"] is False
    assert told["faults"][0]["position"] == "/properties/a/type"
    assert told["annotations"][0] == {
        "kind": "format",
        "pointer": "/format",
        "name": "x",
        "hint": None,
    }
