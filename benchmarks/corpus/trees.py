"""Schemas that refer to themselves."""

from __future__ import annotations

from typing import Any

from benchmarks.corpus.case import (
    FLAG,
    Case,
    listing,
    nullable,
    number,
    one_of,
    record,
    schema_case,
    tagged,
    text,
    whole,
)

_SELF = {"$ref": "#"}


def _of(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _map_of(name: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": _of(name)}


def _nested(value: Any, name: str, depth: int) -> Any:
    """`value` inside of itself, in an array that is called `name`."""
    return value if depth == 0 else {**value, name: [_nested(value, name, depth - 1)]}


def cases() -> list[Case]:
    """Trees and lists of several kinds."""
    leaf = {"key": 1, "left": None, "right": None}
    comment = {"author": "ada", "text": "Yes.", "replies": []}
    file = {"type": "file", "name": "a.txt", "bytes": 12}
    element = {"tag": "b", "children": ["bold"]}
    item = {"label": "Open", "action": "file.open"}
    two = {"op": "+", "args": [1, {"op": "-", "args": ["x"]}]}
    field = {"type": "string", "maxLength": 3}
    return [
        schema_case(
            "binary_tree",
            record(key=whole(), left=nullable(_SELF), right=nullable(_SELF)),
            [leaf, {**leaf, "left": {**leaf, "right": leaf}}],
            [{**leaf, "left": {}}, {"key": 1, "left": None}, {**leaf, "key": "1"}],
        ),
        schema_case(
            "thread",
            {
                "$defs": {
                    "comment": record(
                        author=text(pattern="^[a-z]{2,20}$"),
                        text=text(minLength=1, maxLength=2_000),
                        replies=listing(_of("comment"), 0, 50),
                    )
                },
                **record(subject=text(minLength=1), comments=listing(_of("comment"), 1)),
            },
            [
                {"subject": "Hm", "comments": [comment]},
                {"subject": "Hm", "comments": [_nested(comment, "replies", 5)]},
            ],
            [
                {"subject": "Hm", "comments": []},
                {"subject": "Hm", "comments": [{**comment, "text": ""}]},
                {"subject": "Hm", "comments": [_nested({**comment, "author": "A"}, "replies", 2)]},
            ],
        ),
        schema_case(
            "file_system",
            {
                "$defs": {
                    "entry": {
                        "oneOf": [
                            tagged("file", name=text(pattern="^[^/]+$"), bytes=whole(0)),
                            tagged("link", name=text(pattern="^[^/]+$"), to=text(minLength=1)),
                            tagged("folder", name=text(), entries=listing(_of("entry"))),
                        ]
                    }
                },
                **_of("entry"),
            },
            [
                file,
                {"type": "folder", "name": "/", "entries": [file, {**file, "name": "ö"}]},
                {
                    "type": "folder",
                    "name": "/",
                    "entries": [
                        {"type": "folder", "name": "x", "entries": []},
                        {"type": "link", "name": "y", "to": "x"},
                    ],
                },
            ],
            [
                {**file, "name": "a/b"},
                {"type": "folder", "name": "/", "entries": [{**file, "bytes": -1}]},
                {"type": "link", "name": "y", "bytes": 2},
            ],
        ),
        schema_case(
            "expression",
            {
                "anyOf": [
                    number(),
                    text(pattern="^[a-z]$"),
                    record(op=one_of("+", "-", "*", "/"), args=listing(_SELF, 1, 8)),
                    record(call=text(pattern="^[a-z]{2,10}$"), args=listing(_SELF, 0, 8)),
                ]
            },
            [1, two, {"call": "max", "args": [two, "y", {"call": "pi", "args": []}]}],
            ["xy", {"op": "+", "args": []}, {"op": "^", "args": [1, 2]}],
        ),
        schema_case(
            "menu",
            {
                "$defs": {
                    "menu": record(title=text(minLength=1), items=listing(_of("item"), 1, 20)),
                    "item": {
                        "anyOf": [
                            record(label=text(minLength=1), action=text(pattern=r"^\w+\.\w+$")),
                            record(submenu=_of("menu")),
                            {"const": "separator"},
                        ]
                    },
                },
                **_of("menu"),
            },
            [
                {"title": "File", "items": [item, "separator"]},
                {"title": "File", "items": [{"submenu": {"title": "Recent", "items": [item]}}]},
            ],
            [
                {"title": "File", "items": []},
                {"title": "File", "items": ["line"]},
                {"title": "File", "items": [{"submenu": item}]},
            ],
        ),
        schema_case(
            "markup",
            {
                "anyOf": [
                    text(),
                    record(
                        "attributes children",
                        tag=one_of("p", "b", "i", "ul", "li", "a"),
                        attributes={"type": "object", "additionalProperties": text()},
                        children=listing(_SELF),
                    ),
                ]
            },
            [
                element,
                {"tag": "a", "attributes": {"href": "#é"}, "children": ["x", element]},
                "plain",
            ],
            [{"tag": "u"}, {"tag": "b", "children": [1]}, {"children": []}],
        ),
        schema_case(
            "linked_list",
            record("next", value=whole(0, 9), next=_SELF),
            [{"value": 1}, {"value": 1, "next": {"value": 2, "next": {"value": 3}}}],
            [{"value": 10}, {"next": {"value": 2}}, {"value": 1, "next": None}],
        ),
        schema_case(
            "schema_of_schemas",
            {
                "$defs": {
                    "schema": {
                        "anyOf": [
                            FLAG,
                            record(
                                "maxLength pattern",
                                type={"const": "string"},
                                maxLength=whole(0),
                                pattern=text(),
                            ),
                            record(
                                "minimum maximum",
                                type=one_of("integer", "number"),
                                minimum=number(),
                                maximum=number(),
                            ),
                            record(
                                "maxItems",
                                type={"const": "array"},
                                items=_of("schema"),
                                maxItems=whole(0),
                            ),
                            record(
                                type={"const": "object"},
                                properties=_map_of("schema"),
                                required=listing(text()),
                            ),
                            record(anyOf=listing(_of("schema"), 1)),
                        ]
                    }
                },
                **_of("schema"),
            },
            [
                True,
                {"type": "object", "properties": {"a": field, "b": True}, "required": ["a"]},
                {"anyOf": [{"type": "array", "items": field}, {"type": "integer", "minimum": -1}]},
            ],
            [
                {"type": "text"},
                {"type": "string", "maxLength": -1},
                {"anyOf": []},
            ],
        ),
    ]
