"""How the values of a schema are written: white space, order, extra members, ASCII, formats."""

from __future__ import annotations

from typing import Any

import pytest

from grammars import GrammarError, JsonSchema, UnsupportedError, accepts

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array"}},
    "required": ["a"],
}


def taken(constraint: JsonSchema, texts: list[str]) -> list[bool]:
    return [accepts(constraint, text) for text in texts]


def test_white_space_is_compact_single_or_free() -> None:
    texts = ['{"a":1,"b":[1,2]}', '{"a": 1, "b": [1, 2]}', ' {\n"a" :1\t,"b":[ ]\r}']
    assert taken(JsonSchema(PAIR), texts) == [True, False, False]
    assert taken(JsonSchema(PAIR, whitespace="single"), texts) == [False, True, False]
    assert taken(JsonSchema(PAIR, whitespace="flexible"), texts) == [True, True, True]


def test_free_white_space_has_a_bound() -> None:
    def texts(width: int) -> list[str]:
        gap = " " * width
        return [f'{gap}{{"a":1}}', f'{{"a"{gap}:1}}', f'{{"a":1{gap},"b":[]}}', f'{{"a":1{gap}}}']

    constraint = JsonSchema(PAIR, whitespace="flexible", max_whitespace=3)
    assert taken(constraint, texts(3)) == [True] * 4
    assert taken(constraint, texts(4)) == [False] * 4
    assert not accepts(constraint, '{"a":1} ')
    assert accepts(JsonSchema(PAIR, whitespace="flexible", max_whitespace=0), '{"a":1,"b":[1]}')


def test_members_are_in_the_declared_order_or_in_any() -> None:
    texts = ['{"a":1,"b":[]}', '{"b":[],"a":1}', '{"b":[]}']
    assert taken(JsonSchema(PAIR), texts) == [True, False, False]
    assert taken(JsonSchema(PAIR, property_order="any"), texts) == [True, True, False]


EXTRA = '{"a":1,"x":null}'


@pytest.mark.parametrize(
    ("more", "written"),
    [
        ({}, [False, True, True, False]),
        ({"additionalProperties": True}, [True, True, True, False]),
        ({"patternProperties": {"x": {}}}, [True, True, True, False]),
        ({"minProperties": 3}, [False, False, False, False]),
        ({"additionalProperties": False}, [False, False, False, False]),
    ],
)
def test_members_that_nobody_named_are_written_where_it_says(
    more: dict[str, Any], written: list[bool]
) -> None:
    """By default, in any order, when asked for, when asked not to."""
    schema = {**PAIR, **more}
    ways = [
        JsonSchema(schema),
        JsonSchema(schema, property_order="any"),
        JsonSchema(schema, extra_properties=True),
        JsonSchema(schema, property_order="any", extra_properties=False),
    ]
    found = []
    for constraint in ways:
        try:
            found.append(accepts(constraint, EXTRA))
        except GrammarError:
            found.append(False)
    assert found == written


def test_in_the_declared_order_other_members_come_last() -> None:
    schema = {**PAIR, "additionalProperties": {"type": "null"}}
    texts = ['{"a":1,"b":[],"x":null,"y":null}', '{"x":null,"a":1}', '{"a":1,"x":null,"b":[]}']
    assert taken(JsonSchema(schema), texts) == [True, False, False]


def test_no_name_comes_twice() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    for order in ("declared", "any"):
        constraint = JsonSchema(schema, property_order=order)
        texts = ['{"x":1,"y":2}', '{"x":1,"x":1}', '{"x":1,"y":2,"\\u0078":3}']
        assert taken(constraint, texts) == [True, False, False]


def test_ascii_escapes_all_that_is_beyond_it() -> None:
    schema = {
        "type": "object",
        "properties": {"é": {"type": "string"}, "c": {"enum": ["ü", "u"]}},
        "additionalProperties": False,
    }
    plain, escaped = '{"é":"ß","c":"ü"}', '{"\\u00e9":"\\u00df","c":"\\u00fc"}'
    mixed = '{"\\u00e9":"ß","c":"u"}'
    assert taken(JsonSchema(schema), [plain, escaped, mixed]) == [True, True, True]
    assert taken(JsonSchema(schema, ascii_only=True), [plain, escaped, mixed]) == [
        False, True, False,
    ]  # fmt: skip


def test_formats_may_be_annotations() -> None:
    schema = {"type": "string", "format": "date"}
    assert not accepts(JsonSchema(schema), '"x"')
    assert accepts(JsonSchema(schema, formats="ignore"), '"x"')
    assert accepts(JsonSchema({"format": "idn-hostname"}, formats="ignore"), '"x"')
    with pytest.raises(UnsupportedError):
        accepts(JsonSchema({"format": "idn-hostname"}), '"x"')


@pytest.mark.parametrize(
    "options",
    [
        {"whitespace": "wide"},
        {"max_whitespace": -1},
        {"max_whitespace": True},
        {"max_whitespace": 2.0},
        {"property_order": None},
        {"extra_properties": "no"},
        {"formats": True},
        {"resources": [{}]},
        {"resources": {"http://x": 3}},
        {"resources": {"http://x": "{"}},
    ],
)
def test_an_option_that_is_unknown_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GrammarError):
        JsonSchema({}, **options)
