"""Random JSON Schemas of every keyword, and random values that are likely to matter to them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "ab", "é")
TEXTS = ("", "a", "b", "ab", "aab", "é", '"\\', "\n")
PATTERNS = ("^a", "b$", "^a*$", "b", "^[^a]*$", "é")
NUMBERS = (-2, -1, 0, 1, 2, 3, 10, 0.5, 1.5, -0.5)

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from((*NAMES, "c")), inner, max_size=3),
    )


values = st.recursive(scalars, _containers, max_leaves=6)

_counts = st.integers(0, 3)
_positive = st.sampled_from((1, 2, 3, 0.5, 1.5))
_bounds = st.sampled_from(NUMBERS)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(
            st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), min_size=1, unique=True)
        ),
        "enum": st.lists(values, max_size=3),
        "const": values,
        "minimum": _bounds,
        "maximum": _bounds,
        "exclusiveMinimum": _bounds,
        "exclusiveMaximum": _bounds,
        "multipleOf": _positive,
        "minLength": _counts,
        "maxLength": _counts,
        "pattern": st.sampled_from(PATTERNS),
        "items": inner,
        "prefixItems": some,
        "minItems": _counts,
        "maxItems": _counts,
        "contains": inner,
        "minContains": _counts,
        "maxContains": _counts,
        "uniqueItems": st.booleans(),
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "required": names,
        "minProperties": _counts,
        "maxProperties": _counts,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
        "dependentSchemas": by_name,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedItems": inner,
        "unevaluatedProperties": inner,
        "$ref": st.sampled_from(("#/$defs/x", "#/$defs/y")),
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
    return st.one_of(
        st.booleans(),
        chosen.flatmap(lambda names: st.fixed_dictionaries({n: keywords[n] for n in names})),
    )


TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

_parts = st.recursive(st.booleans(), _schemas, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema with definitions that its references lead to, recursion included."""
    document = draw(_schemas(_parts))
    found = {} if isinstance(document, bool) else document
    return {**found, "$defs": {"x": draw(_parts), "y": draw(_parts)}}
