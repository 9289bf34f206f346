"""The drafts of JSON Schema. Owns what differs between them.

A schema without `$schema` is read as draft 2020-12 that also takes what older drafts wrote another
way, where that cannot be mistaken (an array of `items`, a boolean `exclusiveMinimum`).
It must not know what a keyword asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars.errors import UnsupportedError
from grammars.json_values import JsonValue


@dataclass(frozen=True)
class Dialect:
    """`item_arrays`: `items` may be an array, followed by `additionalItems`; `boolean_bounds`:
    `exclusiveMinimum` may be a bool; `lone_refs`: what stands beside `$ref` says nothing;
    `id_keyword`: `$id`, or `id` in draft 4; `legacy_anchors`: `$id` may be an anchor (`#name`);
    `whole_floats`: 1.0 is an integer; `unknown`: the keywords of later drafts, which are refused: a
    reader of the draft is to ignore them, and whoever wrote them meant them.
    """

    name: str
    item_arrays: bool = True
    boolean_bounds: bool = False
    lone_refs: bool = False
    id_keyword: str = "$id"
    legacy_anchors: bool = False
    whole_floats: bool = True
    unknown: frozenset[str] = frozenset()


_SINCE = {
    "2019-09": "dependentRequired dependentSchemas minContains maxContains unevaluatedItems "
    "unevaluatedProperties $recursiveRef",
    "2020-12": "prefixItems $dynamicRef",
    "draft-06": "const contains propertyNames",
    "draft-07": "if then else",
}
_ORDER = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")


def _unknown(name: str) -> frozenset[str]:
    """The keywords of later drafts."""
    later = _ORDER[_ORDER.index(name) + 1 :]
    return frozenset(word for draft in later for word in _SINCE[draft].split())


UNNAMED = Dialect("unnamed", boolean_bounds=True)

_DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": Dialect("2020-12", item_arrays=False),
    "https://json-schema.org/draft/2019-09/schema": Dialect("2019-09", unknown=_unknown("2019-09")),
    **{
        f"http://json-schema.org/draft-0{number}/schema": Dialect(
            f"draft-0{number}",
            boolean_bounds=number == 4,
            lone_refs=True,
            id_keyword="id" if number == 4 else "$id",
            legacy_anchors=True,
            whole_floats=number != 4,
            unknown=_unknown(f"draft-0{number}"),
        )
        for number in (4, 6, 7)
    },
}


NEWEST = _DRAFTS["https://json-schema.org/draft/2020-12/schema"]


def named_dialect(uri: JsonValue) -> Dialect | None:
    """The dialect of this URI, None for an unknown one."""
    key = (
        str(uri)
        .rstrip("#")
        .replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")
    )
    if key in ("http://json-schema.org/schema", "https://json-schema.org/schema"):
        return UNNAMED
    return _DRAFTS.get(key)


def dialect_of(document: JsonValue) -> Dialect:
    """The dialect that a document names; raises UnsupportedError for an unknown one."""
    if not isinstance(document, dict) or "$schema" not in document:
        return UNNAMED
    uri = document["$schema"]
    found = named_dialect(uri)
    if found is None:
        raise UnsupportedError(
            f"the schema has the dialect {uri!r:.80} at /$schema, which is not supported; "
            "give draft 2020-12, 2019-09, 7, 6 or 4, or leave '$schema' out",
            "/$schema",
        )
    return found
