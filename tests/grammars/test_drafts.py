"""Older drafts by `$schema`, each against its own judge; references between documents."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from grammars import GrammarError, JsonSchema, UnsupportedError, accepts, explain

DRAFTS: dict[str, tuple[str, Any]] = {
    "4": ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
    "6": ("http://json-schema.org/draft-06/schema#", jsonschema.Draft6Validator),
    "7": ("http://json-schema.org/draft-07/schema#", jsonschema.Draft7Validator),
    "2019-09": ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    "2020-12": ("https://json-schema.org/draft/2020-12/schema", jsonschema.Draft202012Validator),
}

VALUES = [
    None, True, 0, 1, 2, 3, 3.5, 4, -1, "", "a", "ab", [], [1], [1, "a"], ["a", 1], [1, "a", None],
    [1, "a", 2], [[1]], [[["a"]]], {}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"a": "x", "b": 2},
    {"a": {"a": {"a": 1}}}, {"a": {"a": {"c": 1}}}, {"c": 1}, {"a": {"c": 1}, "b": 2},
]  # fmt: skip

CASES: list[tuple[str, Any]] = [
    ("4", {"minimum": 2, "exclusiveMinimum": True}),
    ("4", {"maximum": 3, "exclusiveMaximum": True, "minimum": 1, "exclusiveMinimum": False}),
    ("4", {"not": {"minimum": 2, "exclusiveMinimum": True}, "type": "integer"}),
    (
        "4",
        {
            "id": "http://x.test/root.json",
            "definitions": {"a": {"id": "item.json", "type": "string"}},
            "items": {"$ref": "item.json"},
        },
    ),
    ("4", {"definitions": {"a": {"id": "#here", "type": "string"}}, "items": {"$ref": "#here"}}),
    ("4 6 7", {"$ref": "#/definitions/a", "type": "string", "definitions": {"a": {"minimum": 2}}}),
    (
        "4 6 7",
        {"not": {"$ref": "#/definitions/a", "enum": [3]}, "definitions": {"a": {"minimum": 2}}},
    ),
    ("4 6 7 2019-09", {"items": [{"type": "integer"}, {"enum": ["a"]}], "additionalItems": False}),
    ("4 6 7 2019-09", {"items": [{}], "additionalItems": {"type": "string"}}),
    ("4 6 7 2019-09", {"items": {"type": "integer"}, "additionalItems": False}),
    ("4 6 7 2019-09", {"not": {"items": [{"type": "integer"}], "additionalItems": False}}),
    ("4 6 7 2019-09 2020-12", {"enum": [[1, "a"], {"a": {"c": 1}}, 3]}),
    ("4 6 7 2019-09 2020-12", {"not": {"enum": [[1, "a"], {"a": {"c": 1}}, 3]}}),
    ("4 6 7", {"dependencies": {"a": ["b"]}}),
    ("4 6 7", {"dependencies": {"a": {"properties": {"b": {"type": "string"}}}, "c": ["b"]}}),
    ("4 6 7", {"not": {"dependencies": {"a": ["b"]}}, "type": "object"}),
    ("6 7 2019-09 2020-12", {"exclusiveMinimum": 2, "maximum": 4}),
    ("6 7 2019-09 2020-12", {"contains": {"type": "string"}, "propertyNames": {"const": "a"}}),
    (
        "6 7",
        {
            "$id": "http://x.test/root.json",
            "definitions": {"a": {"$id": "#here", "type": "string"}},
            "items": {"$ref": "#here"},
        },
    ),
    (
        "7 2019-09 2020-12",
        {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"maxItems": 1}},
    ),
    ("2019-09 2020-12", {"$ref": "#/$defs/a", "type": "integer", "$defs": {"a": {"minimum": 2}}}),
    ("2019-09 2020-12", {"contains": {"type": "string"}, "minContains": 0, "maxContains": 1}),
    ("2019-09", {"contains": {"type": "string"}, "unevaluatedItems": False}),
    ("2020-12", {"contains": {"type": "string"}, "unevaluatedItems": False}),
    (
        "2019-09",
        {
            "$id": "http://x.test/tree",
            "$recursiveAnchor": True,
            "anyOf": [
                {"type": "integer"},
                {"type": "object", "additionalProperties": {"$recursiveRef": "#"}},
            ],
        },
    ),
    (
        "2019-09",
        {
            "$id": "http://x.test/strict",
            "$recursiveAnchor": True,
            "$ref": "tree",
            "unevaluatedProperties": False,
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$recursiveAnchor": True,
                    "type": ["object", "integer"],
                    "properties": {"a": {"$recursiveRef": "#"}},
                }
            },
        },
    ),
    ("2020-12", {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}),
    ("2020-12", {"prefixItems": [{}], "additionalItems": False}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("draft", "schema"),
    [(draft, schema) for drafts, schema in CASES for draft in drafts.split()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_draft_means_what_its_judge_says(draft: str, schema: dict[str, Any]) -> None:
    uri, validator = DRAFTS[draft]
    document = {"$schema": uri, **schema}
    constraint = JsonSchema(document, property_order="any")
    judge = validator(document)
    wanted = [value for value in VALUES if judge.is_valid(value)]
    assert [
        v for v in VALUES if accepts(constraint, json.dumps(v, separators=(",", ":")))
    ] == wanted


@pytest.mark.parametrize("draft", ["4", "6", "7"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("ending", ["", "#"])
def test_a_draft_is_named_with_or_without_its_fragment(
    draft: str, scheme: str, ending: str
) -> None:
    uri = f"{scheme}://json-schema.org/draft-0{draft}/schema{ending}"
    inner = {"$schema": DRAFTS[draft][0], "type": "null"}
    assert accepts(JsonSchema({"$schema": uri, "items": inner}), "[null]")


WHOLE = [
    {"type": "integer"},
    {"type": "number"},
    {"type": ["integer", "string"], "minimum": 2},
    {"type": "integer", "enum": [3, 4.5]},
    {"type": "integer", "enum": [3.0]},
    {"type": "integer", "multipleOf": 1.5},
    {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    {"minimum": 2},
]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("schema", WHOLE, ids=str)
def test_what_is_an_integer_is_the_draft_s_to_say(draft: str, schema: dict[str, Any]) -> None:
    uri, validator = DRAFTS[draft]
    judge = validator({"$schema": uri, **schema})
    constraint = JsonSchema({"$schema": uri, **schema})
    for text in ("3", "3.0", "-0.0", "4.5", "6", "6.0"):
        assert accepts(constraint, text) == judge.is_valid(json.loads(text)), text


def test_in_draft_4_nothing_that_is_not_an_integer_is_written_as_a_whole_number() -> None:
    uri, validator = DRAFTS["4"]
    inner = {"items": {"not": {"type": "integer"}}, "uniqueItems": True}
    constraint = JsonSchema({"$schema": uri, **inner})
    assert not accepts(constraint, "[3]")
    assert not accepts(constraint, "[3.0]"), "for readers of other drafts it is an integer"
    assert accepts(constraint, "[3.5]")
    assert validator(inner).is_valid([3.5])
    given = {"items": {"type": "integer", "enum": [1, 2]}, "uniqueItems": True}
    assert accepts(JsonSchema({"$schema": uri, **given}), "[2,1]")
    assert not accepts(JsonSchema({"$schema": uri, **given}), "[2,1.0]")
    assert accepts(JsonSchema(given), "[2,1.0]")


@pytest.mark.parametrize(
    ("draft", "keyword", "value"),
    [
        ("4", "const", 1),
        ("6", "if", {"minimum": 1}),
        ("7", "dependentRequired", {"a": ["b"]}),
        ("2019-09", "prefixItems", [{"minimum": 1}]),
    ],
)
def test_a_keyword_of_a_later_draft_is_refused_with_its_place(
    draft: str, keyword: str, value: Any
) -> None:
    schema = {"$schema": DRAFTS[draft][0], "items": {keyword: value}}
    with pytest.raises(UnsupportedError, match="says nothing in its draft") as caught:
        accepts(JsonSchema(schema), "[]")
    assert caught.value.position == f"/items/{keyword}"
    (fault,) = explain(JsonSchema(schema)).faults
    assert (fault.kind, fault.position) == ("unsupported", f"/items/{keyword}")


def test_without_a_draft_the_older_spellings_are_taken_too() -> None:
    assert not accepts(JsonSchema({"minimum": 2, "exclusiveMinimum": True}), "2")
    schema = {"items": [{"type": "integer"}], "additionalItems": False}
    assert accepts(JsonSchema(schema), "[1]")
    assert not accepts(JsonSchema(schema), "[1,2]")


def test_a_document_of_another_draft_is_refused() -> None:
    others = {"http://x.test/a": {"$schema": DRAFTS["7"][0], "type": "null"}}
    for uri in (DRAFTS["2020-12"][0], DRAFTS["4"][0]):
        constraint = JsonSchema({"$schema": uri, "$ref": "http://x.test/a"}, resources=others)
        with pytest.raises(UnsupportedError) as caught:
            accepts(constraint, "null")
        assert caught.value.position == "http://x.test/a#/$schema"
    newest = {"http://x.test/a": {"$schema": DRAFTS["2020-12"][0], "type": "null"}}
    assert accepts(JsonSchema({"$ref": "http://x.test/a"}, resources=newest), "null")


def test_references_lead_to_the_given_documents() -> None:
    others: dict[str, Any] = {
        "http://x.test/a.json": {
            "$defs": {"n": {"type": "null"}},
            "items": {"$ref": "b.json#/$defs/x"},
        },
        "http://x.test/b.json": json.dumps(
            {"$defs": {"x": {"$ref": "a.json#/$defs/n"}, "y": {"minimum": "1"}}}
        ),
    }
    constraint = JsonSchema({"$ref": "http://x.test/a.json"}, resources=others)
    assert accepts(constraint, "[null,null]")
    assert not accepts(constraint, "[1]")
    broken = JsonSchema({"$ref": "http://x.test/b.json#/$defs/y"}, resources=others)
    with pytest.raises(GrammarError) as caught:
        accepts(broken, "1")
    assert caught.value.position == "http://x.test/b.json#/$defs/y/minimum"
    missing = JsonSchema({"$ref": "http://x.test/c.json"}, resources=others)
    with pytest.raises(UnsupportedError, match="resources="):
        accepts(missing, "1")
