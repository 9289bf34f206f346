"""Constraints that are made to hurt: each by a name, and made when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from grammars import Choices, Constraint, JsonSchema, Regex

Make = Callable[[], Constraint]


def nested_json(depth: int) -> str:
    """Schema text that is nested too deep for any recursion."""
    return '{"not":' * depth + "{}" + "}" * depth


def chain(length: int) -> dict[str, Any]:
    """References to references."""
    links = {f"r{n}": {"$ref": f"#/$defs/r{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/r0", "$defs": {**links, f"r{length}": {"type": "null"}}}


def chain_beside(length: int) -> dict[str, Any]:
    """The same, with a keyword beside each reference: all of them hold for one value."""
    links = {
        f"r{n}": {"$ref": f"#/$defs/r{n + 1}", "maxLength": 9 * length - n} for n in range(length)
    }
    return {"$ref": "#/$defs/r0", "$defs": {**links, f"r{length}": {"type": "string"}}}


def chain_through(length: int, *, required: bool) -> dict[str, Any]:
    """A list of objects, each inside of the one before."""
    needs = {"required": ["next"]} if required else {}
    links = {
        f"r{n}": {"properties": {"next": {"$ref": f"#/$defs/r{n + 1}"}}, "type": "object", **needs}
        for n in range(length)
    }
    return {"$ref": "#/$defs/r0", "$defs": {**links, f"r{length}": {"type": "null"}}}


def one_of(depth: int, *, width: int = 2, nested: bool) -> dict[str, Any]:
    """oneOf in oneOf: directly, or in an array's items."""
    schema: dict[str, Any] = {"type": "null"}
    for level in range(depth):
        inner: Any = schema if nested else {"type": "array", "items": schema}
        others = [{"minimum": level, "multipleOf": 2 + other} for other in range(width - 1)]
        schema = {"oneOf": [inner, *others]}
    return schema


def one_of_in_properties(depth: int) -> dict[str, Any]:
    """Each level has the one below four times."""
    levels: dict[str, Any] = {"l0": {"type": "null"}}
    for level in range(1, depth + 1):
        inner = {"$ref": f"#/$defs/l{level - 1}"}
        levels[f"l{level}"] = {
            "oneOf": [
                {"type": "object", "properties": {"a": inner}, "required": [f"x{level}"]},
                {"type": "object", "properties": {"b": inner}, "required": [f"y{level}"]},
                {"type": "object", "properties": {"a": inner, "b": inner}},
            ]
        }
    return {"$ref": f"#/$defs/l{depth}", "$defs": levels}


def any_of_product(factors: int, *, ways: int = 4) -> dict[str, Any]:
    """Alternatives that multiply."""
    return {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {f"p{factor}": {"const": way}}, "required": [f"q{factor}{way}"]}
                    for way in range(ways)
                ]
            }
            for factor in range(factors)
        ]
    }


def deep_all_of(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": 9}
    for level in range(depth):
        schema = {"allOf": [schema, {"minLength": level % 3}]}
    return schema


def wide(count: int, **more: Any) -> dict[str, Any]:
    """An object of many optional properties."""
    members = {f"property{n}": {"type": "integer"} for n in range(count)}
    return {"type": "object", "properties": members, **more}


def dependents(count: int) -> dict[str, Any]:
    names = [f"n{index}" for index in range(count)]
    return {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in names},
        "dependentRequired": {
            name: [names[(index * 7 + 1) % count], names[(index * 3 + 2) % count]]
            for index, name in enumerate(names)
        },
    }


def overlapping_patterns(count: int) -> dict[str, Any]:
    return {
        "type": "object",
        "patternProperties": {
            f"^.{{{index % 7}}}[a-{chr(ord('b') + index % 24)}]{{1,{index + 1}}}": {
                "minimum": index
            }
            for index in range(count)
        },
    }


def _exclusive(count: int) -> dict[str, Any]:
    """A oneOf of many branches that may hold together."""
    return {
        "oneOf": [
            {"properties": {f"p{n}": {"type": "integer"}, "all": {"minimum": n}}}
            for n in range(count)
        ]
    }


def _big(megabytes: int) -> str:
    """A schema of many megabytes, most of it definitions of objects."""
    one = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 400}}}
    count = megabytes * (1 << 20) // len(json.dumps(one))
    return json.dumps({"type": "object", "properties": {f"p{n}": one for n in range(count)}})


def regexes() -> Iterator[tuple[str, Make]]:
    """Patterns."""
    patterns = {
        "counters_in_counters": "((a{0,50}){0,50}){0,50}",
        "counters_with_gaps": "((a{0,50}b?){0,50}c?){0,50}",
        "ambiguous": "(a|aa)*b",
        "star_of_star": "(((a*)*)*)*b",
        "stars_of_sets": "([ab]*)*([ab]*)*c",
        "exponential_states": "[ab]*a[ab]{18}",
        "far_counter": ".{1,100000}",
        "far_counters": "(.{1,1000}x){1,1000}",
        "optionals": "(a?){1000}a{1000}",
        "billion": "a{0,999999999}",
        "huge_bound": "a{1" + "0" * 300 + "}",
        "copies": "(a{1000}b){1000}",
        "many_stars": "x*" * 2_000,
        "many_optionals": "".join(f"(?:{chr(97 + n % 26)}b?)?" for n in range(3_000)),
        "alternatives": "|".join("ab" * n for n in range(1, 400)),
        "alternatives_of_counters": "|".join(f"[a-f]{{{n},{n * 2}}}x" for n in range(1, 300)),
        "deep_stars": "(" * 100 + "a" + ")*" * 100,
        "deep_counters": "(" * 100 + "a" + "|b){2,3}?c?" * 100,
        "parentheses": "(" * 60_000 + "a" + ")" * 60_000,
        "open_parentheses": "(" * 60_000,
        "wide_alternation": "|".join(f"w{n}" for n in range(15_000)),
        "wider_alternation": "|".join(f"w{n}" for n in range(50_000)),
        "classes": "[" + "".join(chr(n) for n in range(0x4E00, 0x9FFF, 2)) + "]{1,50}x",
        "long_literal": "a" * 1_000_000,
        "overlaps": "(?:a|b|ab)(?:a|b|ab){0,60}c",
        "many_dots": ".*a" * 300,
        "words_backwards": "(?:" + "|".join(f"{n:05d}x*" for n in range(5_000)) + "){3,90}",
    }
    for name, pattern in patterns.items():
        yield name, partial(Regex, pattern)


def _schema_of(make: Callable[[], Any]) -> Constraint:
    return JsonSchema(make())


def schemas() -> Iterator[tuple[str, Make]]:
    """Schemas."""
    made: dict[str, Callable[[], Any]] = {
        "json_100000_deep": lambda: nested_json(100_000),
        "json_90_deep": lambda: nested_json(90),
        "arrays_100000_deep": lambda: '{"enum":[' + "[" * 100_000 + "]" * 100_000 + "]}",
        "chain": lambda: chain(5_000),
        "chain_beside": lambda: chain_beside(5_000),
        "chain_beside_90": lambda: chain_beside(90),
        "chain_through": lambda: chain_through(5_000, required=False),
        "chain_through_required": lambda: chain_through(5_000, required=True),
        "enum_100000": lambda: {"enum": [f"value {n}" for n in range(100_000)]},
        "enum_100000_pattern": lambda: {
            "enum": [f"value {n}" for n in range(100_000)],
            "pattern": "^v.*[13579]$",
        },
        "enum_100000_not": lambda: {
            "enum": [f"value {n}" for n in range(100_000)],
            "not": {"enum": [f"value {n}" for n in range(0, 100_000, 2)]},
        },
        "not_enum_100000": lambda: {
            "type": "string",
            "not": {"enum": [f"value {n}" for n in range(100_000)]},
        },
        "enum_of_objects": lambda: {"enum": [{"a": n, "b": [n, str(n)]} for n in range(20_000)]},
        "enum_of_numbers": lambda: {"enum": [n * 1.5 for n in range(100_000)]},
        "one_of_nested": lambda: one_of(12, nested=True),
        "one_of_nested_wide": lambda: one_of(12, width=4, nested=True),
        "one_of_in_items": lambda: one_of(12, nested=False),
        "one_of_in_items_wide": lambda: one_of(12, width=6, nested=False),
        "one_of_in_properties": lambda: one_of_in_properties(12),
        "one_of_overlapping": lambda: _exclusive(12),
        "one_of_many": lambda: _exclusive(60),
        "optional_1000": lambda: wide(1_000, additionalProperties=False),
        "optional_1000_counted": lambda: wide(1_000, minProperties=500, maxProperties=600),
        "required_1000": lambda: wide(1_000, required=[f"property{n}" for n in range(1_000)]),
        "any_of_product": lambda: any_of_product(10),
        "any_of_product_small": lambda: any_of_product(4, ways=4),
        "huge_bounds": lambda: {"type": "integer", "minimum": 10**900, "maximum": 10**950 + 7},
        "huge_multiple": lambda: {"type": "integer", "multipleOf": 10**60 + 7},
        "multiples": lambda: {
            "type": "integer",
            "allOf": [{"multipleOf": n} for n in range(2, 80)],
        },
        "huge_exponent": lambda: '{"type": "number", "minimum": 1e999999, "maximum": 2e999999}',
        "huge_exponent_multiple": lambda: '{"type": "number", "multipleOf": 1e-999999}',
        "huge_exponent_const": lambda: '{"const": 1e999999999}',
        "huge_exponent_enum": lambda: '{"enum": [1e999999999, 2], "minimum": 1, "multipleOf": 1}',
        "huge_exponent_count": lambda: '{"type": "string", "maxLength": 1e999999999}',
        "digits_1000000": lambda: '{"type": "integer", "minimum": ' + "9" * 1_000_000 + "}",
        "big_10_mb": lambda: _big(10),
        "dependents_200": lambda: dependents(200),
        "patterns_50": lambda: overlapping_patterns(50),
        "patterns_6": lambda: overlapping_patterns(6),
        "deep_all_of": lambda: deep_all_of(90),
        "deeper_all_of": lambda: deep_all_of(400),
        "wide_all_of": lambda: {"allOf": [{"maxLength": 9_999 - n} for n in range(5_000)]},
        "wide_all_of_objects": lambda: {
            "allOf": [
                {"properties": {f"p{n}": {"type": "integer"}}, "required": [f"p{n}"]}
                for n in range(2_000)
            ]
        },
        "all_of_patterns": lambda: {
            "type": "string",
            "allOf": [{"pattern": f"[a-f]{{{n}}}.{{{n}}}x"} for n in range(3, 30)],
        },
        "length_and_pattern": lambda: {
            "type": "string",
            "minLength": 50_000,
            "maxLength": 100_000,
            "pattern": "a.*b",
        },
        "min_items": lambda: {"type": "array", "minItems": 30_000},
        "min_items_huge": lambda: {"type": "array", "minItems": 10**12},
        "prefix_items": lambda: {"prefixItems": [{"minimum": n} for n in range(10_000)]},
        "unique": lambda: {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": list(range(400))},
        },
        "contains": lambda: {
            "type": "array",
            "allOf": [{"contains": {"const": n}, "minContains": 20} for n in range(12)],
        },
        "nots": lambda: {"not": {"not": {"not": {"not": any_of_product(4)}}}},
        "unevaluated": lambda: {**any_of_product(5), "unevaluatedProperties": False},
        "min_properties_huge": lambda: {"type": "object", "minProperties": 10**9},
        "definitions_5000_cycles": lambda: {
            "$ref": "#/$defs/r0",
            "$defs": {
                f"r{n}": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"anyOf": [{"$ref": f"#/$defs/r{(n * k + 1) % 500}"} for k in (2, 3)]},
                }
                for n in range(500)
            },
        },
    }
    for name, make in made.items():
        yield name, partial(_schema_of, make)
    yield (
        "any_order_1000",
        lambda: JsonSchema(wide(1_000, additionalProperties=False), property_order="any"),
    )
    yield (
        "any_order_required_1000",
        lambda: JsonSchema(
            wide(1_000, required=[f"property{n}" for n in range(1_000)]), property_order="any"
        ),
    )
    yield "choices", lambda: Choices([f"{n * 7919 % 1_000_003:06d}x" for n in range(300_000)])


HOSTILE: dict[str, Make] = {**dict(regexes()), **dict(schemas())}
