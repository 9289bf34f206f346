"""JSON strings as texts. Owns the meeting of lengths, patterns and formats.

A length counts code points, a pattern is a search over the decoded string, a format holds for the
whole of it. All are lowered with the one encoding of `charset.json_text`, so that what they have in
common is their intersection, and none is dropped.
It must not know of schemas beyond `StringShape`.
"""

from __future__ import annotations

from dataclasses import replace

from grammars import regex
from grammars.algebra import Algebra
from grammars.charset import ANY, Encoder, json_text, utf8
from grammars.derive import has_string, matches
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.formats import TYPE_FORMATS
from grammars.json_values import is_text
from grammars.regex_lowering import has_anchor, lower_full, lower_search
from grammars.regex_tree import ECMA, Chars, Loop, Seq, Tree, span, whole
from grammars.shapes import StringShape


class Strings:
    """Lowers the string shapes of one schema."""

    def __init__(self, algebra: Algebra, encode: Encoder = json_text) -> None:
        self._algebra = algebra
        self._encode = encode
        self._char = encode(algebra, ANY)
        self._quote = algebra.literal(b'"')
        self._lowered: dict[StringShape, Expr] = {}
        self._plain = Algebra(budget=algebra.budget)
        self._searched: dict[tuple[str, str], Expr] = {}

    def lower(self, shape: StringShape) -> Expr:
        """The texts of the strings of `shape`, with their quotes; EMPTY when there is none."""
        if shape not in self._lowered:
            body = self.body(shape)
            self._lowered[shape] = self._algebra.sequence([self._quote, body, self._quote])
        return self._lowered[shape]

    def body(self, shape: StringShape) -> Expr:
        """The texts between the quotes."""
        algebra, low, high = self._algebra, shape.min_length, shape.max_length
        if high is not None and low > high:
            return algebra.empty
        is_bounded = low == 0 and high is None
        parts = []
        for pattern, pointer in shape.patterns:
            tree = _within(_parse(pattern, pointer), low, high)
            parts.append(lower_search(algebra, tree, self._encode))
            is_bounded = is_bounded or _is_within(tree, low, high)
        parts += [
            lower_full(algebra, regex.parse(TYPE_FORMATS[name]), self._encode)
            for name in shape.formats
        ]
        if not parts or not is_bounded:
            parts.append(algebra.repeat(self._char, low, high))
        body = algebra.intersection(parts)
        return body if has_string(algebra, body) else algebra.empty

    def holds(self, text: str, shape: StringShape) -> bool:
        """Whether a given string has `shape`."""
        if len(text) < shape.min_length or not is_text(text):
            return False
        if shape.max_length is not None and len(text) > shape.max_length:
            return False
        data = text.encode()
        searched = all(matches(self._plain, self._search(*p), data) for p in shape.patterns)
        return searched and all(matches(self._plain, self._format(f), data) for f in shape.formats)

    def _search(self, pattern: str, pointer: str) -> Expr:
        key = ("pattern", pattern)
        if key not in self._searched:
            self._searched[key] = lower_search(self._plain, _parse(pattern, pointer), utf8)
        return self._searched[key]

    def _format(self, name: str) -> Expr:
        key = ("format", name)
        if key not in self._searched:
            self._searched[key] = lower_full(self._plain, regex.parse(TYPE_FORMATS[name]), utf8)
        return self._searched[key]


def _is_within(tree: Tree, low: int, high: int | None) -> bool:
    """Whether all that a pattern matches has a length of low..high: then these ask nothing more."""
    inner = whole(tree)
    if inner is None or has_anchor(inner):
        return False
    least, most = span(inner)
    return least >= low and (high is None or (most is not None and most <= high))


def _within(tree: Tree, low: int, high: int | None) -> Tree:
    """A pattern that repeats one set of characters (`^[a-z]+$`), with the lengths as its bounds.

    The one kind of pattern that usually comes with a length. A counter's masks are few; those of an
    intersection with a counter are as many as its counts.
    """
    inner = whole(tree)
    if not isinstance(inner, Loop) or not isinstance(inner.body, Chars):
        return tree
    least = max(inner.low, low)
    most = min((bound for bound in (inner.high, high) if bound is not None), default=None)
    if most is not None and least > most:
        return tree  # nothing: the intersection will say so
    assert isinstance(tree, Seq), "a whole pattern is a sequence"
    return Seq((tree.items[0], replace(inner, low=least, high=most), tree.items[-1]))


def _parse(pattern: str, pointer: str) -> Tree:
    """The pattern's tree; its errors say where in the schema it stands."""
    try:
        return regex.parse(pattern, ECMA)
    except GrammarError as error:
        raise type(error)(f"{error} (at {pointer} of the schema)", pointer) from None
