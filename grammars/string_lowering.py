"""JSON strings as texts. Owns the meeting of lengths, patterns and formats.

A length counts code points, a pattern is a search over the decoded string, a format holds for the
whole of it. All are lowered with the one encoding of `charset.json_text`, so that what they have in
common is their intersection, and none is dropped.
It must not know of schemas beyond `StringShape`.
"""

from __future__ import annotations

from grammars import regex
from grammars.algebra import Algebra
from grammars.charset import ANY, Encoder, json_text, utf8
from grammars.derive import has_string, matches
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.formats import FORMATS
from grammars.regex_lowering import lower_full, lower_search
from grammars.regex_tree import ECMA, Tree
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
        algebra = self._algebra
        if shape.max_length is not None and shape.min_length > shape.max_length:
            return algebra.empty
        parts = []
        for pattern, pointer in shape.patterns:
            parts.append(lower_search(algebra, _parse(pattern, pointer), self._encode))
        parts += [
            lower_full(algebra, regex.parse(FORMATS[name]), self._encode) for name in shape.formats
        ]
        if not parts or shape.min_length or shape.max_length is not None:
            parts.append(algebra.repeat(self._char, shape.min_length, shape.max_length))
        body = algebra.intersection(parts)
        return body if has_string(algebra, body) else algebra.empty

    def holds(self, text: str, shape: StringShape) -> bool:
        """Whether a given string has `shape`."""
        if len(text) < shape.min_length:
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
            self._searched[key] = lower_full(self._plain, regex.parse(FORMATS[name]), utf8)
        return self._searched[key]


def _parse(pattern: str, pointer: str) -> Tree:
    """The pattern's tree; its errors say where in the schema it stands."""
    try:
        return regex.parse(pattern, ECMA)
    except GrammarError as error:
        raise type(error)(f"{error} (at {pointer} of the schema)", pointer) from None
