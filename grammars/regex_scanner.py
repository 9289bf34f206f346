"""The characters of a pattern: escapes and classes. Owns the reading position and its errors.

Everything below the level of groups and quantifiers, in both dialects. It must not know how items
make up a pattern (that is `regex`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from grammars.charset import ANY, Ranges, fold, intersect, invert, normalized, unicode_class
from grammars.errors import GrammarError, UnsupportedError
from grammars.regex_tree import ECMA, PYTHON, Anchor, Chars, Dialect, Tree

ASCII_CLASSES: dict[str, Ranges] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 13), (32, 32)),
}
_ECMA_SPACES = normalized(
    [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)]
    + [(0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)]
)
_CONTROL_ESCAPES = {"f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX_WIDTH = {"x": 2, "u": 4, "U": 8}
DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags in force at a place of the pattern."""

    ignore_case: bool = False
    dot_all: bool = False
    ascii: bool = False
    verbose: bool = False


def shown(pattern: str) -> str:
    """A pattern as an error message shows it."""
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")


class Scanner:
    """Reads a pattern from left to right: `at` is the column of the next character."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.text = pattern
        self.dialect = dialect
        self.at = 0
        self.flags = Flags()

    # -- characters and errors ---------------------------------------------------------------

    def peek(self, prefix: str) -> bool:
        return self.text.startswith(prefix, self.at)

    def take(self, prefix: str) -> bool:
        found = self.text.startswith(prefix, self.at)
        self.at += len(prefix) * found
        return found

    def done(self) -> bool:
        return self.at >= len(self.text)

    def next(self) -> str:
        if self.done():
            raise self.malformed("it ends where a character must follow")
        self.at += 1
        return self.text[self.at - 1]

    def malformed(self, why: str, column: int | None = None) -> GrammarError:
        column = self.at if column is None else column
        return GrammarError(
            f"the pattern {shown(self.text)} is malformed at column {column}: {why}", column
        )

    def unsupported(self, what: str, column: int) -> UnsupportedError:
        return UnsupportedError(
            f"the pattern {shown(self.text)} has {what} at column {column}, "
            "which is not supported yet; rewrite it without",
            column,
        )

    def chars(self, code: int) -> Chars:
        return Chars(self.folded(((code, code),)))

    def folded(self, ranges: Ranges) -> Ranges:
        if self.flags.ignore_case:
            ranges = fold(ranges, ascii_only=self.flags.ascii)
        return intersect(ranges, ANY)

    # -- escapes and classes -----------------------------------------------------------------

    def escape(self, column: int) -> Tree:
        char = self.next()
        kind = self.class_escape(char)
        if kind is not None:
            return Chars(kind)
        if char in "bB":
            raise self.unsupported("a word boundary", column)
        if char in "AZ":
            if self.dialect is ECMA:
                raise self.unsupported(f"'\\{char}', which ECMA-262 has not,", column)
            return Anchor("start" if char == "A" else "end", column)
        if char in "123456789" and not self.octal_here():
            raise self.unsupported("a back-reference", column)
        if char == "k" and self.dialect is ECMA:
            raise self.unsupported("a back-reference", column)
        return self.chars(self.code_escape(char, column))

    def octal_here(self) -> bool:
        """Whether three octal digits stand here (the first is read already): then it is a code."""
        three = self.text[self.at - 1 : self.at + 2]
        octal = len(three) == 3 and all(c in "01234567" for c in three)
        return octal and self.dialect is PYTHON

    def class_escape(self, char: str) -> Ranges | None:
        """`\\d \\w \\s` and their complements."""
        lower = char.lower()
        if lower not in ("d", "w", "s") or len(lower) != 1:
            return None
        if self.dialect is ECMA:
            ranges = _ECMA_SPACES if lower == "s" else ASCII_CLASSES[lower]
        else:
            ranges = ASCII_CLASSES[lower] if self.flags.ascii else unicode_class(lower)
        return ranges if char == lower else invert(ranges)

    def code_escape(self, char: str, column: int) -> int:
        """The code point that an escape stands for (its first character is read)."""
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char in _HEX_WIDTH and (char != "U" or self.dialect is PYTHON):
            return self.hex_escape(char, column)
        if char in DIGITS:
            return self.octal_escape(char, column)
        if self.dialect is PYTHON:
            if char == "a":
                return 7
            if char == "N":
                return self.named_escape(column)
        elif char == "c" and not self.done() and self.text[self.at].isascii():
            return ord(self.next()) % 32
        if char in "pP":
            raise self.unsupported(f"'\\{char}'", column)
        if char.isascii() and char.isalpha():
            raise self.malformed(f"the escape '\\{char}' is unknown", column)
        return ord(char)

    def hex_escape(self, kind: str, column: int) -> int:
        if self.dialect is ECMA and kind == "u" and self.take("{"):
            end = self.text.find("}", self.at)
            digits, self.at = self.text[self.at : max(end, self.at)], end + 1
        else:
            width = _HEX_WIDTH[kind]
            digits = self.text[self.at : self.at + width]
            self.at += width
            if len(digits) < width:
                digits = ""
        if not digits or not set(digits) <= _HEX or int(digits, 16) > 0x10FFFF:
            raise self.malformed(f"an escape '\\{kind}' without its hex digits", column)
        code = int(digits, 16)
        pair = self.text[self.at : self.at + 6]
        if 0xD800 <= code < 0xDC00 and re.fullmatch(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}", pair):
            if self.dialect is ECMA:
                self.at += 6
                return 0x10000 + ((code - 0xD800) << 10) + int(pair[2:], 16) - 0xDC00
        return code

    def octal_escape(self, first: str, column: int) -> int:
        if self.dialect is ECMA:
            if first != "0" or (not self.done() and self.text[self.at] in DIGITS):
                raise self.malformed("an octal escape", column)
            return 0
        start = self.at - 1
        while self.at - start < 3 and not self.done() and self.text[self.at] in "01234567":
            self.at += 1
        if first in "89" or int(self.text[start : self.at], 8) > 0o377:
            raise self.malformed("an octal escape above \\377", column)
        return int(self.text[start : self.at], 8)

    def named_escape(self, column: int) -> int:
        end = self.text.find("}", self.at)
        try:
            code = ord(unicodedata.lookup(self.text[self.at + 1 : max(end, self.at)]))
        except (KeyError, TypeError):
            raise self.malformed("an unknown character name", column) from None
        self.at = end + 1
        return code

    def char_class(self, column: int) -> Ranges:
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        first = self.dialect is PYTHON  # there a "]" right at the start is a literal
        while first or not self.peek("]"):
            first = False
            if self.done():
                raise self.malformed("a class that is not closed", column)
            at = self.at
            low = self.class_item()
            if (
                self.peek("-")
                and not self.text.startswith("-]", self.at)
                and len(self.text) > (self.at + 1)
            ):
                self.at += 1
                high = self.class_item()
                if (
                    len(low) != 1
                    or len(high) != 1
                    or low[0][0] != low[0][1]
                    or (high[0][0] != high[0][1])
                ):
                    raise self.malformed("a range whose end is a class", at)
                if high[0][0] < low[0][0]:
                    raise self.malformed("a range in the wrong order", at)
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges += low
        self.at += 1
        found = self.folded(normalized(ranges))
        return invert(found) if negated else found

    def class_item(self) -> Ranges:
        column = self.at
        char = self.next()
        if char != "\\":
            return ((ord(char), ord(char)),)
        char = self.next()
        kind = self.class_escape(char)
        if kind is not None:
            return kind
        code = 8 if char == "b" else self.code_escape(char, column)
        return ((code, code),)
