"""Large counts: they compile, judge rightly and are walked to their end, or are refused with their
place.
"""

from __future__ import annotations

import json
import random
from functools import reduce
from typing import Any

import jsonschema
import pytest

from grammars import Cfg, CompileBudgetError, Compiler, JsonSchema, Matcher, Regex, accepts
from grammars.name_tree import NameTree
from tests.grammars.vocabularies import small_vocabulary, walk

VOCABULARY = small_vocabulary()


def written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def nested_objects(depth: int) -> dict[str, Any]:
    def outer(schema: dict[str, Any], _: int) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": schema}, "required": ["a"]}

    return reduce(outer, range(depth), {"type": "integer"})


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def members(count: int, **more: Any) -> dict[str, Any]:
    names = {f"p{index}": {"type": "integer"} for index in range(count)}
    return {"type": "object", "properties": names, **more}


def numbers(count: int) -> dict[str, int]:
    return {f"p{index}": index % 7 for index in range(count)}


LARGE: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "contains": (
        {
            "type": "array",
            "items": {"type": "integer"},
            "contains": {"const": 1},
            "minContains": 60,
        },
        [[1] * 60, [1, 2] * 60],
        [[1] * 59 + [2] * 9, []],
    ),
    "contains, bounded": (
        {"type": "array", "contains": {"const": 1}, "minContains": 60, "maxContains": 70},
        [[1] * 60, [1, 2] * 70],
        [[1] * 59, [1] * 71],
    ),
    "unique": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 200, "uniqueItems": True},
        [[*range(200)]],
        [[*range(199)], [*range(199), 5]],
    ),
    "unique of few": (
        {"type": "array", "items": {"enum": [*range(40)]}, "minItems": 30, "uniqueItems": True},
        [[*range(39, 9, -1)]],
        [[*range(29)], [*range(29), 5], [*range(29), 40]],
    ),
    "many required": (
        members(400, required=[f"p{index}" for index in range(400)]),
        [numbers(400)],
        [numbers(399)],
    ),
    "many needed": (members(300, minProperties=150), [numbers(150)], [numbers(149)]),
    "many items": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 3_000, "maxItems": 3_001},
        [[7] * 3_000],
        [[7] * 2_999, [7] * 3_002],
    ),
    "deep": (
        nested_objects(120),
        [deep(120)],
        [deep(119)],
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_counts_are_judged_rightly(name: str) -> None:
    schema, valid, invalid = LARGE[name]
    constraint = JsonSchema(schema)
    assert all(accepts(constraint, written(value)) for value in valid)
    assert not any(accepts(constraint, written(value)) for value in invalid)


@pytest.mark.parametrize("name", ["contains", "contains, bounded", "unique of few", "deep"])
def test_large_counts_are_walked_to_their_end(name: str) -> None:
    constraint = JsonSchema(LARGE[name][0])
    grammar = Compiler(VOCABULARY).compile(constraint)
    text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 9), random.Random(0)).decode()
    assert accepts(constraint, text)


def test_many_members_in_free_order() -> None:
    names = [f"p{index}" for index in range(120)]
    constraint = JsonSchema(members(120, required=names), property_order="any")
    shuffled = random.Random(3).sample(names, 120)
    assert accepts(constraint, written(dict.fromkeys(shuffled, 1)))
    assert not accepts(constraint, written(dict.fromkeys(shuffled[1:], 1)))
    twice = written(dict.fromkeys(shuffled, 1))[:-1] + f',"{shuffled[0]}":1}}'
    assert not accepts(constraint, twice)


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("low", [0, 5])
def test_walks_of_many_members_are_valid(order: Any, low: int) -> None:
    """More of them than are told apart one by one."""
    names = {f"{letter}{n}": {"enum": [n]} for letter in ("a", "é", '"') for n in range(9)}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": names,
        "required": ["a3", "é4", '"5'],
        "minProperties": low,
        "additionalProperties": {"type": "null"},
    }
    grammar = Compiler(VOCABULARY).compile(JsonSchema(schema, property_order=order))
    for seed in range(3):
        matcher = Matcher(grammar, max_tokens=grammar.min_tokens + 40)
        text = walk(matcher, random.Random(seed)).decode()
        jsonschema.validate(json.loads(text), schema)


def test_a_name_tree_leads_to_every_name_and_to_no_other() -> None:
    names = ["", "a", "ab", "abc", "b", "ba", "é", 'x"']
    tree = NameTree((name, slot) for slot, name in enumerate(names))
    found: dict[str, int] = {}
    pending = [(b"", tree.root)]
    while pending:
        text, branch = pending.pop()
        if branch.last - branch.first == 1:
            slot = tree.within(branch).bit_length() - 1
            found[(text + tree.rest(branch, slot)).decode()] = slot
        else:
            pending += [(text + more, part) for more, part in tree.branches(branch)]
    assert found == {f'"{name}"': slot for slot, name in enumerate(names[:6])}


# -- what is beyond a budget -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "place"),
    [
        ({"type": "array", "uniqueItems": True, "minItems": 10**7}, "/properties/a"),
        ({"type": "array", "contains": {"const": 1}, "minContains": 10**7}, "/properties/a"),
        ({"type": "array", "items": {"type": "null"}, "minItems": 10**7}, "/properties/a"),
        ({"type": "object", "minProperties": 10**7}, "/properties/a"),
    ],
)
def test_a_schema_beyond_the_budget_says_where(inner: dict[str, Any], place: str) -> None:
    schema = {"type": "object", "properties": {"b": True, "a": inner}, "required": ["a"]}
    with pytest.raises(CompileBudgetError, match=f"at {place} of the schema") as caught:
        Compiler(VOCABULARY, max_steps=20_000).compile(JsonSchema(schema))
    assert caught.value.position == place


def test_a_pattern_beyond_the_budget_says_where() -> None:
    with pytest.raises(CompileBudgetError, match="at column 6 of the pattern") as caught:
        Compiler(VOCABULARY, max_steps=20_000).compile(Regex("a{2}b(a{999999999})c"))
    assert caught.value.position == 6


def test_a_grammar_beyond_the_budget_says_where() -> None:
    text = 'start: "x" body\nbody: more~900\nmore: "a"~900'
    with pytest.raises(CompileBudgetError, match="line 1, column 1") as caught:
        Compiler(VOCABULARY).compile(Cfg(text))
    assert caught.value.position == 0
