"""Hypothesis strategies for patterns, schemas and the texts that try them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any] | bool

_ATOMS = [
    "a",
    "b",
    "ab",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\w",
    r"\s",
    r"\n",
    "(?:)",
    "1",
    "é",
    r"[^\W\d]",
]
_ANCHORS = ["^", "$", r"\A", r"\Z"]
_QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "??", "{0}"]


def _composed(parts: st.SearchStrategy[str], quantifiers: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, parts).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda p: f"(?:{'|'.join(p)})"),
        st.tuples(parts, st.sampled_from(quantifiers)).map(lambda p: f"({p[0]}){p[1]}"),
    )


patterns = st.recursive(
    st.sampled_from(_ATOMS), lambda parts: _composed(parts, _QUANTIFIERS), max_leaves=8
)
"""Patterns without anchors."""

anchored_patterns = st.recursive(
    st.sampled_from(_ATOMS[:6] + _ANCHORS),
    lambda parts: _composed(parts, ["?", "{0}"]),
    max_leaves=8,
)
"""Patterns with anchors anywhere but in repetitions."""

_PLACES = [*_ANCHORS, r"\b", r"\B"]
_ALL_QUANTIFIERS = [*_QUANTIFIERS, "{1,2}?", "*+", "++", "?+", "{1,2}+", "{2,}+"]
_behind = st.lists(
    st.sampled_from(["a", "b", ".", r"\w", "[^a]", "^", r"\b", r"\B", "(?!a)"]), max_size=3
).map("".join)
"""Bodies of look-behinds: `re` wants them of one width."""


def _of_any_kind(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    heads = st.sampled_from(["(?=", "(?!", "(?>", "(?m:", "(?i:", "(?a:", "(?s:", "(?x: "])
    return st.one_of(
        _composed(parts, _ALL_QUANTIFIERS),
        st.tuples(heads, parts).map(lambda p: f"{p[0]}{p[1]})"),
        st.tuples(st.sampled_from(["(?<=", "(?<!"]), _behind).map(lambda p: f"{p[0]}{p[1]})"),
    )


full_patterns = st.tuples(
    st.sampled_from(["(?a)", "(?a)", "", "(?ai)", "(?m)"]),  # the classes of ASCII are cheaper
    st.recursive(st.sampled_from(_ATOMS + 2 * _PLACES), _of_any_kind, max_leaves=8),
).map("".join)
"""Patterns of all the syntax that describes a regular language."""

finite_patterns = st.recursive(
    st.sampled_from(["a", "b", "ab", "[ab]", "bb"]),
    lambda parts: _composed(parts, ["?", "{2}", "{1,2}"]),
    max_leaves=5,
)
"""Patterns of finitely many texts over a and b."""

texts = st.text(alphabet="abc1é \nA", max_size=6)

_bounds = st.one_of(
    st.integers(-20, 120),
    st.integers(-3, 3),
    st.decimals(-3, 13, places=2, allow_nan=False).map(float),
    st.integers(-(10**30), 10**30),
)


def _with(base: Schema, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=optional).map(lambda more: {**dict(base), **more})  # type: ignore[arg-type]


numbers = st.sampled_from(["integer", "number"]).flatmap(
    lambda name: _with(
        {"type": name},
        minimum=_bounds,
        maximum=_bounds,
        exclusiveMinimum=_bounds,
        exclusiveMaximum=_bounds,
    )
)
strings = st.one_of(
    _with({"type": "string"}, minLength=st.integers(0, 3), maxLength=st.integers(0, 6)),
    _with(
        {},
        type=st.just("string"),
        pattern=st.sampled_from(
            [
                "^[a-z]+$",
                "a|b$",
                "^(a|bc)*$",
                r"\d{2,3}",
                "é",
                "^.{2,4}$",
                "[^a]",
                "^$",
                "x?",
                '^a|^"',
            ]
        ),
        minLength=st.integers(0, 3),
        maxLength=st.integers(2, 6),
    ),
    _with(
        {"type": "string"},
        format=st.sampled_from(["date", "uuid", "ipv4", "time", "date-time", "email", "color"]),
    ),
)
values = st.sampled_from([1, "a", None, True, 'é"', [1, 2], {"x": 1}, 2.5, "b", 0, "\n", 1.0])
flat: st.SearchStrategy[Schema] = st.one_of(
    numbers,
    strings,
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    values.map(lambda value: {"const": value}),
    st.lists(values, min_size=1, max_size=4).map(lambda found: {"enum": found}),
    st.sets(
        st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"]),
        min_size=1,
        max_size=3,
    ).map(lambda names: {"type": sorted(names)}),
    st.sampled_from([{}, True]),
)


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    branches = st.lists(inner, min_size=1, max_size=3)
    names = st.sampled_from(["a", "b", "c", "dé", 'e"'])
    return st.one_of(
        _with(
            {"type": "array"},
            items=inner,
            prefixItems=st.lists(inner, min_size=1, max_size=2),
            minItems=st.integers(0, 2),
            maxItems=st.integers(0, 3),
        ),
        _with(
            {"type": "object"},
            properties=st.dictionaries(names, inner, max_size=4),
            required=st.lists(st.sampled_from(["a", "b", "z"]), unique=True, max_size=2),
            additionalProperties=st.one_of(st.booleans(), inner),
        ),
        st.tuples(flat, branches).map(
            lambda p: {**(p[0] if isinstance(p[0], dict) else {}), "anyOf": p[1]}
        ),
        branches.map(lambda found: {"anyOf": found}),
        branches.map(lambda found: {"oneOf": found}),
        branches.map(lambda found: {"allOf": found[:2]}),
    )


schemas: st.SearchStrategy[Schema] = st.recursive(flat, _nested, max_leaves=8)
"""Schemas of the keywords that are enforced; some are unsatisfiable, some overlapping oneOfs."""

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-30, 130),
        st.decimals(-5, 15, places=2, allow_nan=False).map(float),
        st.text(alphabet='abz19é"\\\n😀', max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c", "dé", 'e"']), inner, max_size=3),
    ),
    max_leaves=6,
)
