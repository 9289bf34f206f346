"""JSON strings as texts. Owns the meeting of lengths, patterns and formats.

A length counts code points, a pattern is a search over the decoded string, a format holds for the
whole of it. All are lowered with the one encoding of `charset.json_text`, so that what they have in
common is their intersection, what refutes them their complement, and none is dropped.
It must not know of schemas beyond `StringShape`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from grammars import regex
from grammars.algebra import Algebra
from grammars.charset import ANY, Encoder, ascii_json_text, json_text, utf8
from grammars.derive import has_string, matches
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.formats import MAX_LENGTHS, TYPE_FORMATS
from grammars.json_values import is_text
from grammars.regex_lowering import has_anchor, lower_full, lower_search
from grammars.regex_tree import ECMA, Chars, Loop, Seq, Tree, span, whole
from grammars.shapes import Format, Pattern, StringShape


class Strings:
    """Lowers the string shapes of one schema."""

    def __init__(self, algebra: Algebra, encode: Encoder = json_text) -> None:
        self._algebra = algebra
        self._encode = encode
        self._char = encode(algebra, ANY)
        self._any = algebra.repeat(self._char, 0, None)
        self._quote = algebra.literal(b'"')
        self._lowered: dict[StringShape, Expr] = {}
        self._spelled: dict[str, Expr] = {}
        self._plain = Algebra(budget=algebra.budget)
        self._searched: dict[Pattern | Format, Expr] = {}

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
        parts: list[Expr] = []
        refuted: list[Expr] = []
        for pattern in shape.patterns:
            tree = _parse(algebra, pattern)
            if pattern.negated:
                refuted.append(lower_search(algebra, tree, self._encode))
                continue
            tree = _within(tree, low, high)
            parts.append(lower_search(algebra, tree, self._encode))
            is_bounded = is_bounded or _is_within(tree, low, high)
        parts += (_format(algebra, asked, self._encode) for asked in shape.formats)
        if shape.excluded:
            refuted.append(self.spelled(shape.excluded))
        if not parts or not is_bounded:
            parts.append(algebra.repeat(self._char, low, high))
        body = algebra.intersection([*parts, *map(algebra.complement, refuted)])
        return body if has_string(algebra, body) else algebra.empty

    def words(self, texts: tuple[str, ...]) -> Expr:
        """Any of the given strings: with all that is not ASCII escaped, and (unless nothing else is
        written) as it is.
        """
        written = [text for text in texts if is_text(text)]
        if self._encode is utf8:
            return self._algebra.words(text.encode() for text in written)
        ways = (True,) if self._encode is ascii_json_text else (False, True)
        return self._algebra.words(_body(text, ascii_only=a) for text in written for a in ways)

    def spelled(self, texts: tuple[str, ...]) -> Expr:
        """Any of the given strings, in every way that the encoding has: each character by itself
        may be escaped or not.
        """
        algebra = self._algebra
        plain = [text for text in texts if _ONE_SPELLING.fullmatch(text)]
        others = [text for text in texts if is_text(text) and not _ONE_SPELLING.fullmatch(text)]
        return algebra.union(
            [
                algebra.words(text.encode() for text in plain),
                *(algebra.sequence([self._of_char(char) for char in text]) for text in others),
            ]
        )

    def _of_char(self, char: str) -> Expr:
        """One character, in every way that the encoding has."""
        if char not in self._spelled:
            self._spelled[char] = self._encode(self._algebra, ((ord(char), ord(char)),))
        return self._spelled[char]

    def holds(self, text: str, shape: StringShape) -> bool:
        """Whether a given string has `shape`."""
        if len(text) < shape.min_length or not is_text(text) or text in shape.others:
            return False
        if shape.max_length is not None and len(text) > shape.max_length:
            return False
        if not shape.patterns and not shape.formats:
            return True
        data = text.encode()
        patterns = ((self._asked(replace(p, negated=False)), p.negated) for p in shape.patterns)
        formats = ((self._asked(asked), False) for asked in shape.formats)
        asked = (*patterns, *formats)
        return all(matches(self._plain, node, data) != negated for node, negated in asked)

    def _asked(self, asked: Pattern | Format) -> Expr:
        """What a pattern (that is not negated) or a format asks, as plain text."""
        if asked not in self._searched:
            if isinstance(asked, Pattern):
                made = lower_search(self._plain, _parse(self._plain, asked), utf8)
            else:
                made = _format(self._plain, asked, utf8)
            self._searched[asked] = made
        return self._searched[asked]


def _format(algebra: Algebra, asked: Format, encode: Encoder) -> Expr:
    """What a format asks."""
    found = lower_full(algebra, regex.parse(TYPE_FORMATS[asked.name]), encode)
    longest = MAX_LENGTHS.get(asked.name)
    if longest is None:
        return found
    return algebra.intersection([found, algebra.repeat(encode(algebra, ANY), 0, longest)])


_ONE_SPELLING = re.compile(r"[ !#-.0-\[\]-~]*")
"""Printable ASCII without the quote, the solidus and the backslash."""


def _body(text: str, *, ascii_only: bool) -> bytes:
    """A string between its quotes."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode()


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


def _parse(algebra: Algebra, pattern: Pattern) -> Tree:
    """The pattern's tree; its errors say where in the schema it stands."""
    algebra.budget.spend(len(pattern.text))
    try:
        return regex.parse(pattern.text, ECMA)
    except GrammarError as error:
        where = pattern.pointer
        raise type(error)(f"{error} (at {where} of the schema)", where) from None
