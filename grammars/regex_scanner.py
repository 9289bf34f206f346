"""The characters of a pattern: escapes and classes. Owns the reading position and its errors.

Everything below the level of groups and quantifiers, in both dialects. It must not know how items
make up a pattern (that is `regex`).
"""

from __future__ import annotations

import re
import string
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from grammars.charset import ANY, Ranges, fold, intersect, invert, normalized, unicode_class
from grammars.errors import GrammarError, UnsupportedError
from grammars.regex_looks import text_end, text_start, word_border
from grammars.regex_properties import property_class
from grammars.regex_tree import ECMA, PYTHON, Chars, Dialect, Tree

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
_LETTERS = frozenset(string.ascii_letters)
_HEX = frozenset("0123456789abcdefABCDEF")
_variants = lru_cache(maxsize=1024)(fold)
"""The same letters come again and again, and each costs a search."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags in force at a place of the pattern."""

    ignore_case: bool = False
    dot_all: bool = False
    ascii: bool = False
    verbose: bool = False
    multi_line: bool = False


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
        self._chars: dict[tuple[int, bool, bool], Chars] = {}
        self._borders: dict[tuple[str, bool], Tree] = {}
        self.properties: list[tuple[int, int]] = []  # where each \p{...} begins and ends

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
            "which is not supported; rewrite it without",
            column,
        )

    def chars(self, code: int) -> Chars:
        """One given character, or its case variants."""
        key = (code, self.flags.ignore_case, self.flags.ascii)
        if key not in self._chars:
            self._chars[key] = Chars(self.folded(((code, code),)))
        return self._chars[key]

    def folded(self, ranges: Ranges) -> Ranges:
        if self.flags.ignore_case:
            ranges = _variants(ranges, ascii_only=self.flags.ascii)
        return intersect(ranges, ANY)

    # -- escapes and classes -----------------------------------------------------------------

    def escape(self, column: int) -> Tree:
        """The escape at `column`, outside of a class; its backslash is read."""
        char = self.next()
        kind = self.class_escape(char, column)
        if kind is not None:
            return Chars(kind)
        if char in "bB":
            return self.word_border(char, column)
        if char in "AZz":
            if self.dialect is ECMA:
                raise self.unsupported(f"'\\{char}', which ECMA-262 has not,", column)
            return text_start(column) if char == "A" else text_end(column)
        if char in "123456789" and not self.octal_here():
            raise self.unsupported("a back-reference", column)
        if char == "k" and self.dialect is ECMA:
            raise self.unsupported("a back-reference", column)
        return self.chars(self.code_escape(char, column))

    def word_border(self, char: str, column: int) -> Tree:
        """`\\b` or `\\B`. All of one kind are one tree, so that they are lowered once."""
        key = (char, self.flags.ascii)
        if key not in self._borders:
            word = self.named_class("w")
            border = word_border(column, self.dialect, word=word, negated=char == "B")
            self._borders[key] = border
        return self._borders[key]

    def octal_here(self) -> bool:
        """Whether three octal digits stand here (the first is read already): then it is a code."""
        three = self.text[self.at - 1 : self.at + 2]
        octal = len(three) == 3 and all(c in "01234567" for c in three)
        return octal and self.dialect is PYTHON

    def class_escape(self, char: str, column: int) -> Ranges | None:
        """`\\d \\w \\s \\p{...}` and their complements; its first two characters are read."""
        if char in "pP":
            ranges = self.property_escape(column)
        elif char in "dwsDWS":
            ranges = self.named_class(char.lower())
        else:
            return None
        return ranges if char.islower() else invert(ranges)

    def named_class(self, name: str) -> Ranges:
        """What `\\d`, `\\w` or `\\s` means here."""
        if self.dialect is ECMA:
            return _ECMA_SPACES if name == "s" else ASCII_CLASSES[name]
        return ASCII_CLASSES[name] if self.flags.ascii else unicode_class(name)

    def property_escape(self, column: int) -> Ranges:
        end = self.text.find("}", self.at)
        if not self.take("{") or end < 0:
            raise self.malformed("'\\p' without a name in braces", column)
        name, self.at = self.text[self.at : end], end + 1
        self.properties.append((column, self.at))
        found = property_class(name)
        if found is None:
            what = f"the property {name!r}, which is no general category of Unicode,"
            raise self.unsupported(what, column)
        return found

    def without_properties(self) -> str:
        """The pattern with a class that `re` knows in place of each `\\p{...}`."""
        kept, at = [], 0
        for start, end in self.properties:
            kept.append(self.text[at:start])
            at = end
        return r"\w".join([*kept, self.text[at:]])

    def original_column(self, column: int | None) -> int | None:
        """The column that one of `without_properties` stands for."""
        for start, end in self.properties:
            if column is None or column <= start:
                break
            column += end - start - len(r"\w")
        return column

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
        elif char == "c" and not self.done() and self.text[self.at] in _LETTERS:
            return ord(self.next()) % 32
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
        """The class at `column`; its opening bracket is read."""
        negated = self.take("^")
        cased: list[tuple[int, int]] = []  # the flag i is about characters, not about \w
        classes: list[tuple[int, int]] = []
        first = self.dialect is PYTHON  # there a "]" right at the start is a literal
        while first or not self.peek("]"):
            first = False
            if self.done():
                raise self.malformed("a class that is not closed", column)
            at = self.at
            low = self.class_item()
            if not self.peek("-") or self.peek("-]") or self.at + 1 >= len(self.text):
                self.add_item(low, cased, classes)
                continue
            self.at += 1
            high = self.class_item()
            if isinstance(low, int) and isinstance(high, int):
                if high < low:
                    raise self.malformed("a range in the wrong order", at)
                cased.append((low, high))
            elif self.dialect is PYTHON:
                raise self.malformed("a range whose end is a class", at)
            else:  # [\w-.]: of three items, the second is a dash
                for item in (low, ord("-"), high):
                    self.add_item(item, cased, classes)
        self.at += 1
        found = normalized([*self.folded(normalized(cased)), *classes])
        return invert(found) if negated else found

    def add_item(
        self, item: int | Ranges, cased: list[tuple[int, int]], classes: list[tuple[int, int]]
    ) -> None:
        if isinstance(item, int):
            cased.append((item, item))
        else:
            classes += item

    def class_item(self) -> int | Ranges:
        """A character, or a class inside of the class."""
        column = self.at
        char = self.next()
        if char != "\\":
            return ord(char)
        char = self.next()
        kind = self.class_escape(char, column)
        if kind is not None:
            return kind
        return 8 if char == "b" else self.code_escape(char, column)
