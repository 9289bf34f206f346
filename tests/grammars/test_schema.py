"""JSON Schema against `jsonschema`, both ways; keyword by keyword; what is refused, and where.

Random schemas of every keyword are in `test_schema_differential`, how values are written in
`test_schema_layout`, older drafts and references in `test_drafts`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from grammars import EmptyLanguageError, GrammarError, JsonSchema, UnsupportedError, accepts
from grammars.json_values import dump, parse_json
from tests.grammars import strategies as sg
from tests.grammars.judge import is_valid


def written(value: Any, whitespace: str = "compact") -> str:
    separators = (",", ":") if whitespace == "compact" else (", ", ": ")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def allows(schema: Any, value: Any) -> bool:
    return accepts(JsonSchema(schema), written(value))


def as_we_write(schema: Any, value: Any) -> bool:
    """Whether `value` is one that our serialisation leaves in: no members beyond the declared, in
    the declared order, integers without a fraction, no unknown format... Asked of flat schemas."""
    if isinstance(value, dict):
        return False
    if isinstance(value, float) and value == int(value):
        return False
    return not isinstance(value, list) or all(as_we_write(schema, item) for item in value)


@given(sg.schemas, st.lists(sg.json_values, min_size=1, max_size=8))
@example({"type": "object", "required": ["a"]}, [{"a": 1}, {}])
@settings(max_examples=300, deadline=None)
def test_what_is_accepted_is_valid(schema: Any, values: list[Any]) -> None:
    try:
        accepted = [value for value in values if allows(schema, value)]
    except GrammarError:
        return
    for value in accepted:
        assert is_valid(schema, written(value))


@given(sg.flat, st.lists(sg.json_values, min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_what_is_valid_and_as_we_write_it_is_accepted(schema: Any, values: list[Any]) -> None:
    assume(schema is True or "format" not in schema)  # of these, jsonschema knows few by itself
    judge = jsonschema.Draft202012Validator(schema)
    try:
        constraint = JsonSchema(schema)
        accepts(constraint, "")
    except EmptyLanguageError:
        assert not any(judge.is_valid(v) for v in values if as_we_write(schema, v))
        return
    for value in values:
        if as_we_write(schema, value) and judge.is_valid(value):
            assert accepts(constraint, written(value))
            assert accepts(JsonSchema(schema, whitespace="single"), written(value, "single"))
            assert accepts(constraint, dump(parse_json(written(value)), "compact", ascii_only=True))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.booleans(), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)),
    st.sampled_from(["compact", "single"]),
)
@settings(max_examples=200, deadline=None)
def test_every_subset_of_optional_members_has_its_commas_right(
    declared: dict[str, bool], value: dict[str, int], whitespace: Any
) -> None:
    required = [name for name, is_required in declared.items() if is_required]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in declared},
        "required": required,
        "additionalProperties": False,
    }
    ordered = {name: value[name] for name in declared if name in value}
    complete = all(name in value for name in required)
    constraint = JsonSchema(schema, whitespace=whitespace)
    assert accepts(constraint, written(ordered, whitespace)) == complete
    assert not accepts(constraint, written({**ordered, "z": 1}, whitespace))
    assert not accepts(constraint, written(ordered, whitespace)[:-1] + ",}")


bounds = st.one_of(
    st.integers(-1200, 1200),
    st.integers(-(10**40), 10**40),
    st.decimals(-20, 20, places=3, allow_nan=False),
    st.sampled_from(
        [Decimal("0.5"), Decimal("-0.05"), Decimal(0), Decimal("1E-7"), Decimal("-1.0")]
    ),
)


@given(
    st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), bounds
    ),
    st.lists(bounds, min_size=1, max_size=6),
    st.sampled_from(["integer", "number"]),
)
@settings(max_examples=250, deadline=None)
def test_bounds_are_exact_at_any_size(
    limits: dict[str, Decimal], probes: list[Decimal], name: str
) -> None:
    schema = dump({"type": name, **limits}, "compact", ascii_only=False)
    is_empty = False
    near = [bound + step for bound in limits.values() for step in (-1, 0, 1, Decimal("0.001"))]
    for probe in [*probes, *near]:
        text = dump(probe, "compact", ascii_only=False)
        inside = (
            probe >= limits.get("minimum", probe)
            and probe <= limits.get("maximum", probe)
            and ("exclusiveMinimum" not in limits or probe > limits["exclusiveMinimum"])
            and ("exclusiveMaximum" not in limits or probe < limits["exclusiveMaximum"])
        )
        whole, _, part = text.partition(".")
        is_whole = part in ("", "0") and not (part and len(whole.lstrip("-")) > 15)
        try:
            found = not is_empty and accepts(JsonSchema(schema), text)
            if name == "number" and not is_empty:
                padded = text + ("0" if part else ".00")
                assert accepts(JsonSchema(schema), padded) == inside
        except EmptyLanguageError:  # it is looked for why, which takes a while: once
            found, is_empty = False, True
        assert found == (inside and (name == "number" or is_whole))


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "integer"}, ["0", "-7", "12", "-0", "3.0"], ["01", "1.00", "+1", "1e3", ""]),
        (
            {"type": "number"},
            ["0", "-0", "1.50", "2e10", "1.5E-7"],
            [".5", "1.", "1e", "1e999", "NaN"],
        ),
        (
            {"type": "number", "minimum": -1, "maximum": 1},
            ["-0.5", "-1.0", "1", "0.99"],
            ["1.01", "-2"],
        ),
        ({"type": "string", "maxLength": 1}, ['"\\n"', '"\\ud83d\\udc22"', '"🐢"', '""'], ['"ab"']),
        ({"type": "string", "minLength": 2}, ['"é\\u00e9"'], ['"é"', '"\\ud83d\\udc22"']),
        ({"pattern": "^é$"}, ['"é"', '"\\u00e9"', '"\\u00E9"', "1"], ['"e"', '"\\u00ea"']),
        ({"type": "string", "pattern": "a", "maxLength": 2}, ['"ba"'], ['"bba"', '"b"']),
        ({"type": "string", "format": "date", "pattern": "^2"}, ['"2024-02-29"'], ['"1999-01-01"']),
        ({"type": "string", "format": "date"}, ['"2000-02-29"'], ['"1900-02-29"', '"2024-02-30"']),
        ({"type": "string", "format": "nonsense"}, ['"x"'], ["1"]),
        ({"type": ["integer", "null"]}, ["1", "null"], ['"1"', "1.5"]),
        (
            {"const": {"b": [1, 2.5], "a": "é"}},
            ['{"b":[1,2.5],"a":"é"}'],
            ['{"a":"é","b":[1,2.5]}'],
        ),
        (
            {"enum": ["é", "b", 3], "type": "string"},
            ['"é"', '"\\u00e9"', '"b"'],
            ["3", '"\\u0062"'],
        ),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        (
            {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2},
            ["[null]", "[null,null]"],
            ["[]", "[null,null,null]", "[null,]"],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "integer"}},
            ["[]", "[null]", "[null,1]"],
            ["[1]", "[null,null]"],
        ),
        ({"type": "object"}, ["{}", '{"a":1,"":[{}]}'], ["[]", "{a:1}"]),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ['{"x":1}'],
            ['{"x":"1"}'],
        ),
        ({"type": "object", "additionalProperties": False}, ["{}"], ['{"x":1}']),
        ({"type": "object", "required": ["q"]}, ['{"q":null}'], ["{}", '{"r":1}']),
        ({"type": "object", "properties": {"a": False, "b": True}}, ['{"b":1}', "{}"], ['{"a":1}']),
        ({"properties": {'k\u0001"': {}}}, ['{"k\\u0001\\"":1}', "5"], ['{"k\u0001\\"":1}']),
        (
            {"$ref": "#/$defs/x", "maximum": 5, "$defs": {"x": {"type": "integer"}}},
            ["5"],
            ["6", "4.5"],
        ),
        (
            {"allOf": [{"minimum": 2}, {"type": "integer"}], "maximum": 3},
            ["2", "3"],
            ["1", "4", '""'],
        ),
        (
            {"anyOf": [{"type": "null"}, {"minimum": 5}], "type": ["null", "integer"]},
            ["null", "5"],
            ["4"],
        ),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, ["1", '"a"'], ["null"]),
        ({"type": "integer", "multipleOf": 3}, ["0", "-9", "12.0"], ["1", "10", "1.5"]),
        ({"type": "number", "multipleOf": 0.01}, ["4.35", "1.10", "7"], ["4.355"]),
        ({"not": {"type": ["string", "null"]}}, ["1", "[]", "true"], ['"a"', "null"]),
        ({"type": "integer", "not": {"minimum": 3}}, ["2", "-7"], ["3", "4"]),
        ({"type": "string", "not": {"pattern": "^a|b$"}}, ['"ba"', '""'], ['"ab"', '"\\u0061"']),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, ["2", "3.5", '"a"'], ["3", "2.5"]),
        (
            {"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "null"}},
            ["3", "null"],
            ["2", "true", "3.5"],
        ),
        (
            {"type": "array", "contains": {"type": "null"}, "minContains": 2, "maxContains": 2},
            ["[null,null]", "[1,null,[],null]"],
            ["[]", "[null]", "[null,null,null]"],
        ),
        (
            {"items": {"enum": [1, 2, "a"]}, "uniqueItems": True},
            ["[]", '[2,"a",1]', "null"],
            ["[1,1]", "[1,1.0]", "[1,1e-0]", '["a",1,"a"]'],
        ),
        (
            {
                "anyOf": [{"items": {"enum": [1, 2]}}, {"items": {"enum": ["a", "b"]}}],
                "uniqueItems": True,
                "type": "array",
            },
            ["[2,1]", '["b","a"]', "[]"],
            ["[1,1]", '["a",1]', '["b","b"]'],
        ),
        (
            {"prefixItems": [{"type": "null"}], "unevaluatedItems": {"type": "integer"}},
            ["[null,1,2]"],
            ["[null,null]"],
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 2}},
            },
            ['{"x":1,"y":2,"a":null}', '{"xy":2}'],
            ['{"x":null}', '{"y":1}', '{"xy":1}', '{"\\u0078":null}'],
        ),
        (
            {"type": "object", "propertyNames": {"maxLength": 2}},
            ['{"ab":1}', '{"\\n\\u00e9":1}'],
            ['{"abc":1}'],
        ),
        (
            {"type": "object", "minProperties": 1, "maxProperties": 2},
            ['{"a":1}', '{"a":1,"b":2}'],
            ["{}", '{"a":1,"b":2,"c":3}'],
        ),
        (
            {"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
            ["{}", '{"b":1}', '{"a":1,"b":2}', "3"],
            ['{"a":1}'],
        ),
        (
            {
                "properties": {"a": {}, "b": {}},
                "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}},
            },
            ['{"b":1}', '{"a":1}', '{"a":1,"b":null}'],
            ['{"a":1,"b":1}'],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}},
                "anyOf": [{"properties": {"b": {"type": "null"}}}, {"required": ["a"]}],
                "unevaluatedProperties": False,
            },
            ["{}", '{"a":null,"b":null}', '{"b":null}'],
            ['{"c":null}', '{"a":null,"c":null}'],
        ),
        (
            {
                "$ref": "#/$defs/node",
                "$defs": {
                    "node": {
                        "type": "object",
                        "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "null"}},
                        "additionalProperties": False,
                    }
                },
            },
            ["{}", '{"next":{"next":{"next":{}},"v":null}}'],
            ['{"next":null}', '{"next":{"w":1}}'],
        ),
        ({"title": "anything", "default": 3, "x-more": {"not": {}}}, ["1", "[{}]"], ["", "nul"]),
        (True, ["1", '"\\u00e9"', "[[[[[[]]]]]]"], ["", "tru"]),
    ],
)
def test_keywords(schema: Any, yes: list[str], no: list[str]) -> None:
    constraint = JsonSchema(schema)
    assert [text for text in yes if not accepts(constraint, text)] == []
    assert [text for text in no if accepts(constraint, text)] == []


NESTED: dict[str, Any] = {}
for _ in range(200):
    NESTED = {"not": NESTED, "type": "null"}


def test_alternatives_may_need_the_schema_that_they_are_read_for() -> None:
    inner = {"next": {"$ref": "#"}, "a": True}
    one = {"type": "object", "properties": inner, "required": ["next"]}
    other = {
        "type": "object",
        "properties": {**inner, "a": {"const": 1}},
        "required": ["next", "a"],
    }
    schema = {"oneOf": [one, other, {"type": "null"}]}
    assert accepts(JsonSchema(schema), '{"next":{"next":null},"a":2}')
    assert not accepts(JsonSchema(schema), '{"next":{"next":null},"a":1}')
    closed = {"anyOf": [one, other, {"type": "null"}], "unevaluatedProperties": False}
    assert accepts(JsonSchema(closed), '{"next":{"next":null},"a":1}')
    assert not accepts(JsonSchema(closed), '{"next":null,"b":1}')


def test_what_objects_are_told_apart_by_is_looked_at_before_what_they_contain() -> None:
    defs: dict[str, Any] = {"one": {"const": 1}, "last": {"type": "null"}}
    for n in range(110):
        inner = {"$ref": f"#/$defs/{n - 1 if n else 'last'}"}
        kinds = [{"$ref": "#/$defs/one"}, {"const": 2}]
        defs[f"{n}"] = {
            "oneOf": [
                {"type": "object", "properties": {"in": inner, "k": kind}, "required": ["in", "k"]}
                for kind in kinds
            ]
        }
    schema = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/109"}], "$defs": defs}
    assert accepts(JsonSchema(schema), "null")


REFUSED: list[tuple[Any, str]] = [
    ({"type": "string", "nullable": True}, "/nullable"),
    ({"items": {"divisibleBy": 2}}, "/items/divisibleBy"),
    ({"anyOf": [True, {"disallow": "null"}]}, "/anyOf/1/disallow"),
    ({"properties": {"a/b~": {"extends": {}}}}, "/properties/a~1b~0/extends"),
    ({"type": "string", "format": "idn-hostname"}, "/format"),
    ({"$ref": "https://example.com/x"}, "/$ref"),
    ({"$ref": "http://[no-uri"}, "/$ref"),
    ({"type": "string", "pattern": r"(a)\1"}, "/pattern"),
    ({"patternProperties": {r"(a)\1": {}}}, r"/patternProperties/(a)\1"),
    ({"not": {"uniqueItems": True}}, "/not/uniqueItems"),
    ({"if": {"uniqueItems": True}, "then": False, "items": {"type": "string"}}, "/if/uniqueItems"),
    ({"not": {"format": "date"}}, "/not/format"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema"),
    ({"$schema": "https://example.com/meta"}, "/$schema"),
    (
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "type": []}}},
        "/properties/a/$schema",
    ),
    (
        {
            "anyOf": [{"properties": {f"p{n}": {}}} for n in range(11)],
            "unevaluatedProperties": False,
        },
        "/anyOf",
    ),
    (NESTED, "/not" * 96),
]


@pytest.mark.parametrize(("schema", "pointer"), REFUSED)
def test_what_is_not_supported_is_refused_with_its_pointer(schema: Any, pointer: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        accepts(JsonSchema(schema), "1")
    assert caught.value.position == pointer
    assert pointer in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "text"}, "/type"),
        ({"type": []}, "/type"),
        ({"type": [1]}, "/type"),
        ({"minimum": "3"}, "/minimum"),
        ({"maxLength": -1}, "/maxLength"),
        ({"minItems": 1.5}, "/minItems"),
        ({"pattern": "("}, "/pattern"),
        ({"required": "a"}, "/required"),
        ({"properties": {"a": 3}}, "/properties/a"),
        ({"enum": 3}, "/enum"),
        ({"not": {"enum": {}}}, "/not/enum"),
        ({"anyOf": []}, "/anyOf"),
        ({"oneOf": {}}, "/oneOf"),
        ({"allOf": [{}, 3]}, "/allOf/1"),
        ({"not": 3}, "/not"),
        ({"if": 3, "then": {}}, "/if"),
        ({"if": {}, "then": 3}, "/then"),
        ({"if": {}, "else": []}, "/else"),
        ({"minimum": True}, "/minimum"),
        ({"exclusiveMaximum": "1"}, "/exclusiveMaximum"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"multipleOf": -1.5}, "/multipleOf"),
        ({"minLength": 1, "maxLength": "x"}, "/maxLength"),
        ({"format": 3}, "/format"),
        ({"items": 3}, "/items"),
        ({"prefixItems": {}}, "/prefixItems"),
        ({"prefixItems": [{}, None]}, "/prefixItems/1"),
        ({"prefixItems": [{}], "items": [{}]}, "/items"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}, "/items"),
        ({"contains": 1}, "/contains"),
        ({"contains": {}, "minContains": "1"}, "/minContains"),
        ({"contains": {}, "maxContains": 0.5}, "/maxContains"),
        ({"uniqueItems": 1}, "/uniqueItems"),
        ({"properties": []}, "/properties"),
        ({"patternProperties": {"a": 3}}, "/patternProperties/a"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/("),
        ({"additionalProperties": "no"}, "/additionalProperties"),
        ({"propertyNames": 0}, "/propertyNames"),
        ({"required": [1]}, "/required"),
        ({"minProperties": None}, "/minProperties"),
        ({"dependentRequired": {"a": {}}}, "/dependentRequired/a"),
        ({"dependentSchemas": {"a": []}}, "/dependentSchemas/a"),
        ({"dependencies": {"a/b": 3}}, "/dependencies/a~1b"),
        ({"unevaluatedItems": 3}, "/unevaluatedItems"),
        ({"unevaluatedProperties": 3}, "/unevaluatedProperties"),
        ({"$ref": 3}, "/$ref"),
        ({"$dynamicRef": {}}, "/$dynamicRef"),
        ({"$ref": "#nowhere"}, "/$ref"),
        ({"$ref": "#/enum/0", "enum": [3]}, "/enum/0"),
        ({"$ref": "#/$defs/none"}, "/$ref"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "/$defs/a"),
        ({"$ref": "#"}, ""),
    ],
)
def test_a_malformed_schema_is_refused_with_its_pointer(schema: Any, pointer: str) -> None:
    with pytest.raises(GrammarError) as caught:
        accepts(JsonSchema(schema), "1")
    assert not isinstance(caught.value, UnsupportedError | EmptyLanguageError)
    assert caught.value.position == pointer


@pytest.mark.parametrize(
    "schema", ["{", "[1]", '"a"', '{"minimum": NaN}', "[" * 100_000, 3, {"a": {1}}]
)
def test_what_is_no_schema_is_refused_at_once(schema: Any) -> None:
    with pytest.raises(GrammarError):
        JsonSchema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({1: 2}, ""),
        ({"properties": {"a/b": {"enum": [{True: 1}]}}}, "/properties/a~1b/enum/0"),
        ({"anyOf": ({}, {None: 3})}, "/anyOf/1"),
    ],
)
def test_a_name_that_is_no_str_is_refused_with_its_place(schema: Any, pointer: str) -> None:
    """`json.dumps` would write it as one."""
    with pytest.raises(GrammarError, match="a name in JSON is a str") as caught:
        JsonSchema(schema)
    assert caught.value.position == pointer


def test_a_format_that_only_a_type_has_is_an_annotation() -> None:
    assert allows({"type": "string", "format": "uuid4"}, "x")
    assert allows({"type": "string", "format": "naive-time"}, "x")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (False, ""),
        ({"enum": []}, ""),
        ({"type": "integer", "minimum": 3, "maximum": 2}, ""),
        ({"type": "integer", "minimum": 0.1, "exclusiveMaximum": 1}, ""),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, ""),
        ({"type": "string", "minLength": 3, "maxLength": 2}, ""),
        (
            {"type": "object", "properties": {"a": False, "b": {}}, "required": ["b", "a"]},
            "/properties/a",
        ),
        (
            {"type": "object", "required": ["a"], "additionalProperties": False},
            "/additionalProperties",
        ),
        ({"type": "array", "items": False, "minItems": 1}, "/items"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, ""),
        ({"type": "array", "contains": {"type": "null"}, "items": {"type": "integer"}}, ""),
        ({"type": "object", "minProperties": 1, "propertyNames": False}, ""),
        ({"type": "integer", "multipleOf": 5, "minimum": 1, "maximum": 4}, ""),
        ({"not": {}}, ""),
        ({"type": "null", "if": True, "then": False}, ""),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {
                    "a": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {"a": {"$ref": "#/$defs/a"}},
                    }
                },
            },
            "/$defs/a/properties/a",
        ),
        (
            {
                "type": "object",
                "required": ["s"],
                "properties": {"s": {"type": "string", "pattern": "^a{3}$", "maxLength": 2}},
            },
            "/properties/s",
        ),
        ({"type": "string", "format": "uuid", "pattern": "g"}, ""),
        ({"const": 3, "type": "string"}, ""),
        ({"const": "\ud800"}, ""),
        ({"enum": ["\ud800"], "minLength": 1}, ""),
        ({"type": "string", "pattern": "^\ud800$"}, ""),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ""),
    ],
)
def test_an_unsatisfiable_schema_is_refused_where_it_is_so(schema: Any, pointer: str) -> None:
    with pytest.raises(EmptyLanguageError) as caught:
        accepts(JsonSchema(schema), "1")
    assert caught.value.position == pointer


FORMATS = {
    "date": (["2024-02-29", "0001-01-01"], ["2023-02-29", "2024-1-01", "0000-01-01", "2024-04-31"]),
    "time": (["10:20:30Z", "23:59:59.123+02:00"], ["10:20:30", "24:00:00Z", "10:60:00Z", "1:0:0Z"]),
    "date-time": (["2024-02-29T10:20:30Z"], ["2024-02-29 10:20:30Z", "2024-02-30T10:20:30Z"]),
    "uuid": (["2EB8AA08-AA98-11EA-B4AA-73B441D16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    "ipv4": (["127.0.0.1", "255.255.255.255"], ["256.0.0.1", "01.2.3.4", "1.2.3"]),
    "email": (["te~st.x@example.co.uk"], [".a@example.com", "a@b", "a@-b.com", "a b@example.com"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_their_real_ranges(name: str) -> None:
    yes, no = FORMATS[name]
    assert [text for text in yes if not allows({"format": name}, text)] == []
    assert [text for text in no if allows({"format": name}, text)] == []


def test_thirty_optional_members_stay_small() -> None:
    names = [f"p{number}" for number in range(30)]
    schema = {"type": "object", "properties": {name: {"type": "null"} for name in names}}
    assert allows(schema, {})
    assert allows(schema, {"p3": None, "p17": None, "p29": None})
    assert not allows(schema, {"p17": None, "p3": None})


def test_a_value_that_nothing_is_said_about_nests_as_deep_as_it_likes() -> None:
    assert accepts(JsonSchema(True), "[" * 200 + "{}" + "]" * 200)


@pytest.mark.parametrize("text", ["1e1000000000", "1e-1000000000", "9" * 20_000, "1e" + "9" * 30])
@pytest.mark.parametrize("keyword", ["minimum", "multipleOf", "const", "minLength"])
def test_a_number_too_long_to_compute_with_is_refused_at_once(keyword: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match="more than 10000 digits"):
        JsonSchema(f'{{"{keyword}": {text}}}')


def test_a_count_is_whole_and_of_a_size_that_one_can_count_to() -> None:
    assert accepts(JsonSchema('{"type": "array", "maxItems": 3.0}'), "[1,2,3]")
    for text in ("1.5", "-1"):
        with pytest.raises(GrammarError, match=f"has {text} at /minLength"):
            accepts(JsonSchema(f'{{"minLength": {text}}}'), "1")
    with pytest.raises(UnsupportedError, match="at /maxLength"):
        accepts(JsonSchema('{"maxLength": 1e400}'), "1")


def test_a_name_that_no_text_has_is_never_written() -> None:
    schema = {"type": "object", "properties": {"\ud800": {}}, "minProperties": 1}
    assert accepts(JsonSchema(schema, property_order="any"), '{"a":1}')
    with pytest.raises(EmptyLanguageError):
        accepts(JsonSchema({"type": "object", "required": ["\ud800"]}), "{}")


def test_parse_gives_the_value() -> None:
    assert JsonSchema({}).parse('{"a": [1, 2.5]}') == {"a": [1, 2.5]}
