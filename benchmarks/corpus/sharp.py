"""Keywords where engines differ, and schemas that are large; most are made by a rule."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.corpus.case import (
    FLAG,
    Case,
    listing,
    number,
    one_of,
    record,
    schema_case,
    text,
    whole,
)

_SYLLABLES = ("ka", "lo", "mi", "re", "su", "ta", "vo", "zen", "qua", "pri")


def _word(index: int) -> str:
    """A made-up word; another one for each index below 10,000."""
    return "".join(_SYLLABLES[int(digit)] for digit in f"{index:03d}")


def _large() -> list[Case]:
    names = [_word(index) for index in range(600)]
    optional = {f"{_word(i)}_{i}": (whole(), text(maxLength=20), FLAG)[i % 3] for i in range(100)}
    some = {name: (1, "x", True)[i % 3] for i, name in enumerate(optional) if i in {0, 2, 50, 99}}
    columns = {f"column_{i:02d}": (number(), text(), FLAG, whole(0, 99))[i % 4] for i in range(60)}
    row = {name: (0.5, "a b", False, 7)[i % 4] for i, name in enumerate(columns)}
    deep: dict[str, Any] = {"leaf": whole()}
    value: dict[str, Any] = {"leaf": 1}
    for level in range(12):
        deep = {f"level_{level}": record(**deep), "note": text(maxLength=10)}
        value = {f"level_{level}": value, "note": "n"}
    mixed = [*range(0, 300, 7), *names[:100], None, True, [1, 2], {"a": 1}]
    return [
        schema_case(
            "big_enum",
            record(word=one_of(*names)),
            [{"word": names[0]}, {"word": names[599]}],
            [{"word": names[0] + "x"}, {"word": ""}, {"word": _word(600)}],
        ),
        schema_case(
            "mixed_enum",
            listing(one_of(*mixed), 1, 10),
            [[7, None, names[3]], [True, [1, 2], {"a": 1}]],
            [[8], [False], [names[101]]],
        ),
        schema_case(
            "optional_100",
            record(" ".join(optional), **optional),
            [{}, some],
            [{"x": 1}, {next(iter(optional)): "1"}],
        ),
        schema_case(
            "optional_100_at_least_two",
            {**record(" ".join(optional), **optional), "minProperties": 2, "maxProperties": 5},
            [some, dict(list(some.items())[:2])],
            [{}, dict(list(some.items())[:1])],
        ),
        schema_case(
            "columns_60",
            record(**columns),
            [row, {**row, "column_59": 0}],
            [{**row, "column_59": 100}, dict(list(row.items())[:-1])],
        ),
        schema_case(
            "deep_12",
            record(**deep),
            [value],
            [{**value, "note": "n" * 11}, {"level_11": {}, "note": ""}],
        ),
        schema_case(
            "long_text",
            record(title=text(maxLength=100), body=text(minLength=200, maxLength=5_000)),
            [
                {"title": "Lorem", "body": "dolor sit amet, " * 13},
                {"title": "", "body": "é\n" * 100},
            ],
            [{"title": "Lorem", "body": "short"}, {"title": "x" * 101, "body": "y" * 200}],
        ),
        schema_case(
            "long_array",
            listing(whole(0, 9), 3, 1_000),
            [[1, 2, 3], [index % 10 for index in range(100)]],
            [[1, 2], [1, 2, 3, 10]],
        ),
        schema_case(
            "unions_30",
            {
                "oneOf": [
                    record(kind={"const": _word(i)}, **{f"arg_{i % 7}": (whole(), text())[i % 2]})
                    for i in range(30)
                ]
            },
            [{"kind": _word(0), "arg_0": 5}, {"kind": _word(29), "arg_1": "x"}],
            [{"kind": _word(0), "arg_0": "5"}, {"kind": _word(1), "arg_2": "x"}],
        ),
    ]


def _strings() -> list[Case]:
    return [
        schema_case(
            "formats",
            record(
                id=text(format="uuid"),
                day=text(format="date"),
                at=text(format="date-time"),
                clock=text(format="time"),
                mail=text(format="email"),
                four=text(format="ipv4"),
                six=text(format="ipv6"),
                host=text(format="hostname"),
            ),
            [
                _FORMATTED,
                {**_FORMATTED, "at": "2024-02-29T12:00:00.5+05:30", "six": "2001:DB8::1"},
            ],
            [
                {**_FORMATTED, "day": "2024-02-30"},
                {**_FORMATTED, "four": "1.2.3.256"},
                {**_FORMATTED, "id": "0b0f2d2a8d0f4a9e9a510c2c8d1d7b11"},
            ],
        ),
        schema_case(
            "pattern_and_length",
            record(
                code=text(pattern="[0-9]{2}", minLength=4, maxLength=6), line=text(pattern="^.*$")
            ),
            [{"code": "ab12", "line": "é\\"}, {"code": "12\n34", "line": ""}],
            [
                {"code": "ab1c", "line": ""},
                {"code": "ab12345", "line": ""},
                {"code": "12", "line": ""},
            ],
        ),
        schema_case(
            "excluded_words",
            record(name={"type": "string", "maxLength": 20, "not": one_of("admin", "root", "")}),
            [{"name": "ada"}, {"name": "administrator"}, {"name": "roo"}],
            [{"name": "admin"}, {"name": "root"}, {"name": ""}],
        ),
        schema_case(
            "unicode_lengths",
            listing(text(minLength=2, maxLength=3), 1),
            [["日本", "🐢🐢🐢"], ['"\\', "\n\t"]],
            [["日"], ["🐢🐢🐢🐢"], ["\n"]],
        ),
        schema_case(
            "escaped_names",
            record(**{'a"b': whole(), "c\\d": whole(), "é/~": whole(), "": whole()}),
            [{'a"b': 1, "c\\d": 2, "é/~": 3, "": 4}],
            [{'a"b': 1, "c\\d": 2, "é/~": 3}, {"ab": 1, "c\\d": 2, "é/~": 3, "": 4}],
        ),
    ]


_FORMATTED = {
    "id": "0b0f2d2a-8d0f-4a9e-9a51-0c2c8d1d7b11",
    "day": "2024-02-29",
    "at": "1999-12-31T23:59:59Z",
    "clock": "07:30:00Z",
    "mail": "ada@example.org",
    "four": "192.168.0.255",
    "six": "::1",
    "host": "www.example.org",
}


def _counts() -> list[Case]:
    base = record(id=whole(1), type=text(enum=["a", "b"]))
    return [
        schema_case(
            "decimals",
            record(price=number(0, 10, multipleOf=0.05), share=number(-1, 1), big=whole(10**20)),
            [
                {"price": 9.95, "share": -0.125, "big": 10**20},
                {"price": 0, "share": 1, "big": 10**25 + 1},
            ],
            [
                {"price": 9.94, "share": 0, "big": 10**20},
                {"price": 10.05, "share": 0, "big": 10**20},
                {"price": 1, "share": -1.5, "big": 10**20 - 1},
            ],
        ),
        schema_case(
            "across_zero",
            listing(whole(-1_024, 77), 1, 5),
            [[-1024, 77], [0, -1, 9, 70]],
            [[-1025], [78], [0.5]],
        ),
        schema_case(
            "three_or_five",
            {
                "type": "array",
                "items": {"oneOf": [whole(0, 99, multipleOf=3), whole(0, 99, multipleOf=5)]},
            },
            [[3, 5, 99], []],
            [[15], [1], [0]],
        ),
        schema_case(
            "tuple",
            {
                "type": "array",
                "prefixItems": [text(minLength=1), whole(0), FLAG],
                "items": False,
                "minItems": 2,
            },
            [["a", 1], ["a", 1, True]],
            [["a"], ["a", 1, True, 2], [1, "a"]],
        ),
        schema_case(
            "contains",
            {
                "type": "array",
                "items": whole(0, 9),
                "contains": {"const": 7},
                "maxContains": 2,
                "maxItems": 8,
            },
            [[7], [1, 7, 2, 7]],
            [[1, 2], [7, 7, 7], [7, 10]],
        ),
        schema_case(
            "unique_enum",
            listing(one_of("a", "b", "c", "d", 1, None), 2, 4, uniqueItems=True),
            [["a", 1], [None, "d", "c", 1]],
            [["a"], ["a", "b", "a"], ["a", "b", "c", "d", 1]],
        ),
        schema_case(
            "matrix",
            listing(listing(number(-1, 1), 3, 3), 3, 3),
            [[[0, 0.5, -1], [1, 1, 1], [-0.25, 0, 0]]],
            [[[0, 0, 0], [0, 0, 0]], [[0, 0, 2], [0, 0, 0], [0, 0, 0]]],
        ),
        schema_case(
            "merged",
            {
                "allOf": [
                    {"type": "object", "properties": {"a": whole(0)}, "required": ["a"]},
                    {"properties": {"a": {"maximum": 9}, "b": text(maxLength=5)}},
                    {"required": ["b"], "additionalProperties": True},
                ]
            },
            [{"a": 9, "b": "hello"}, {"a": 0, "b": ""}],
            [{"a": 10, "b": ""}, {"a": 1}, {"a": 1, "b": "longer"}],
        ),
        schema_case(
            "unevaluated",
            {
                "$defs": {"base": {"properties": {"id": whole(1)}, "required": ["id"]}},
                "type": "object",
                "allOf": [{"$ref": "#/$defs/base"}],
                "properties": {"name": text()},
                "unevaluatedProperties": False,
            },
            [{"id": 1}, {"name": "x", "id": 2}],
            [{"name": "x"}, {"id": 1, "extra": 1}, {"id": 0}],
        ),
        schema_case(
            "dependent",
            {**base, "dependentSchemas": {"type": {"properties": {"id": {"maximum": 99}}}}},
            [{"id": 99, "type": "a"}, {"id": 1, "type": "b"}],
            [{"id": 100, "type": "a"}, {"id": 1, "type": "c"}],
        ),
    ]


def _ours() -> list[Case]:
    """Documents of this project: the main example's record, and what a benchmark reports."""
    from examples.extract_packages import Package

    good = {
        "name": "rich",
        "version": "15.0.0",
        "license": "MIT",
        "topics": ["Terminals"],
        "status": "stable",
        "min_python": "3.8",
    }
    shares = {f"{part}_share": number(0, 1) for part in ("mask", "sample", "forward")}
    report = {"rows": 64, "vs_serial": 4.9, "mask_share": 0.004, "sample_share": 0.065}
    report |= {"forward_share": 0.928, "threads": 2}
    return [
        schema_case(
            "example_record",
            json.loads(json.dumps(Package.model_json_schema())),
            [good, {**good, "version": None, "topics": [], "min_python": None}],
            [{**good, "version": "15"}, {**good, "license": "WTFPL"}, {**good, "name": ""}],
        ),
        schema_case(
            "benchmark_report",
            record(rows=whole(1), vs_serial=number(0), **shares, threads=whole(1)),
            [report, {**report, "mask_share": 0}],
            [{**report, "rows": 0}, {**report, "mask_share": 1.01}],
        ),
    ]


def cases() -> list[Case]:
    """The sharp ones."""
    return [*_large(), *_strings(), *_counts(), *_ours()]
