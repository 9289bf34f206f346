"""The syntax of patterns: text to a tree over code points. Owns both dialects and their columns.

* `PYTHON` is the syntax of `re` for str patterns.
* `ECMA` is ECMA-262 with the `u` flag's code points, as JSON Schema's `pattern` asks: `\\d` and
  `\\w` are ASCII, `$` is the end only, a dot also stops at `\\r`, U+2028 and U+2029.

What describes no regular language, or is not enforced yet (back-references, look-around, `\\b`,
multi-line anchors, atomic groups and possessive quantifiers, `\\p`), is refused with its column; it
is never dropped. It must not know how a tree becomes an expression (that is `regex_lowering`).
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass, replace

from grammars.charset import (
    ANY,
    Ranges,
    fold,
    intersect,
    invert,
    normalized,
    unicode_class,
)
from grammars.errors import GrammarError, UnsupportedError
from grammars.regex_tree import ECMA, PYTHON, Alt, Anchor, Chars, Dialect, Loop, Seq, Tree

MAX_NESTING = 100
"""Groups inside groups; real patterns stay below 20, and every level costs Python stack."""


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
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags in force at a place of the pattern."""

    ignore_case: bool = False
    dot_all: bool = False
    ascii: bool = False
    verbose: bool = False


_FLAG_OF = {"i": "ignore_case", "s": "dot_all", "a": "ascii", "x": "verbose"}


def parse(pattern: str, dialect: Dialect = PYTHON) -> Tree:
    """The tree of `pattern`; raises GrammarError or UnsupportedError with the column in
    `position`.
    """
    tree = _Parser(pattern, dialect).parse()
    if dialect is PYTHON:  # `re` has the last word on what is malformed
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except (re.error, OverflowError) as error:
            column = getattr(error, "pos", None)
            message = f"the pattern {_shown(pattern)} is malformed: {error}"
            raise GrammarError(message, column) from None
    return tree


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else pattern[:57] + "...")


class _Parser:
    """A recursive-descent parser: `at` is the column of the next character."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.text = pattern
        self.dialect = dialect
        self.at = 0
        self.flags = Flags()
        self.nesting = 0

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
            f"the pattern {_shown(self.text)} is malformed at column {column}: {why}", column
        )

    def unsupported(self, what: str, column: int) -> UnsupportedError:
        return UnsupportedError(
            f"the pattern {_shown(self.text)} has {what} at column {column}, "
            "which is not supported yet; rewrite it without",
            column,
        )

    # -- structure ---------------------------------------------------------------------------

    def parse(self) -> Tree:
        tree = self.alternatives()
        if not self.done():
            raise self.malformed("a closing parenthesis without its opening one")
        return tree

    def alternatives(self) -> Tree:
        options = [self.items()]
        while self.take("|"):
            options.append(self.items())
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def items(self) -> Tree:
        items: list[Tree] = []
        while not self.done() and not self.peek("|") and not self.peek(")"):
            if self.flags.verbose and self.skip_verbose():
                continue
            column = self.at
            atom = self.atom()
            if atom is not None:
                items.append(self.quantified(atom, column))
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def skip_verbose(self) -> bool:
        if self.text[self.at] in " \t\n\r\v\f":
            self.at += 1
        elif self.peek("#"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            return False
        return True

    def atom(self) -> Tree | None:
        """One item without its quantifier; None for what stands for nothing (flags, comments)."""
        column = self.at
        char = self.next()
        if char == "(":
            return self.group(column)
        if char == "[":
            return Chars(self.char_class(column))
        if char == ".":
            return Chars(ANY if self.flags.dot_all else invert(self.dialect.line_ends))
        if char == "^":
            return Anchor("start", column)
        if char == "$":
            return Anchor(self.dialect.dollar, column)
        if char == "\\":
            return self.escape(column)
        if char in "*+?":
            raise self.malformed(f"{char!r} has nothing to repeat", column)
        if self.dialect is ECMA and char == "{":
            self.at = column
            if self.bounds() is not None:
                raise self.malformed("'{' has nothing to repeat", column)
            self.at = column + 1
        return self.chars(ord(char))

    def chars(self, code: int) -> Chars:
        return Chars(self.folded(((code, code),)))

    def folded(self, ranges: Ranges) -> Ranges:
        if self.flags.ignore_case:
            ranges = fold(ranges, ascii_only=self.flags.ascii)
        return intersect(ranges, ANY)

    # -- groups and flags --------------------------------------------------------------------

    def group(self, column: int) -> Tree | None:
        outer = self.flags
        if self.take("?"):
            if self.take("#"):
                end = self.text.find(")", self.at)
                if end < 0:
                    raise self.malformed("a comment that is not closed", column)
                self.at = end + 1
                return None
            if not self.group_kind(column):
                return None
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.unsupported(f"more than {MAX_NESTING} groups in one another", column)
        tree = self.alternatives()
        if not self.take(")"):
            raise self.malformed("a group that is not closed", column)
        self.nesting -= 1
        self.flags = outer
        return tree if not isinstance(tree, Seq) or tree.items else Seq(())

    def group_kind(self, column: int) -> bool:
        """Reads what follows `(?`; False when it was global flags, which hold no group."""
        if self.take(":"):
            return True
        for mark, what in (("=", "look-ahead"), ("!", "look-ahead"), ("<=", "look-behind"),
                           ("<!", "look-behind"), (">", "an atomic group"),
                           ("P=", "a back-reference"), ("(", "a conditional group")):  # fmt: skip
            if self.peek(mark):
                raise self.unsupported(what, column)
        if self.take("P<" if self.dialect is PYTHON else "<"):
            end = self.text.find(">", self.at)
            if end < 0 or not self.text[self.at : end].isidentifier():
                raise self.malformed("a group's name that is no identifier", column)
            self.at = end + 1
            return True
        return self.inline_flags(column)

    def inline_flags(self, column: int) -> bool:
        on, off = self.flag_letters(), ""
        if self.take("-"):
            off = self.flag_letters()
        scoped = self.take(":")
        if not scoped and not self.take(")") or not on + off:
            raise self.malformed("an unknown kind of group", column)
        for letter in on + off:
            if letter not in _FLAG_OF and letter != "u":
                raise self.unsupported(f"the flag {letter!r}", column)
        if not scoped and self.dialect is ECMA:
            raise self.malformed("an unknown kind of group", column)
        changed = {_FLAG_OF[c]: c in on for c in on + off if c in _FLAG_OF}
        self.flags = replace(self.flags, **changed)
        return scoped

    def flag_letters(self) -> str:
        start = self.at
        while not self.done() and self.text[self.at].isalpha():
            self.at += 1
        return self.text[start : self.at]

    # -- quantifiers -------------------------------------------------------------------------

    def quantified(self, atom: Tree, column: int) -> Tree:
        while self.flags.verbose and not self.done() and self.skip_verbose():
            pass
        at = self.at
        bounds = self.bounds()
        if bounds is None:
            return atom
        low, high = bounds
        if high is not None and high < low:
            raise self.malformed(f"bounds in the wrong order ({low} > {high})", at)
        if isinstance(atom, Anchor) and self.text[column] != "(":
            raise self.malformed("an anchor cannot be repeated", at)
        if self.peek("+") and self.dialect is PYTHON:
            raise self.unsupported("a possessive quantifier", self.at)
        self.take("?")  # lazy: the same strings
        again = self.at
        if not self.done() and self.bounds() is not None:
            raise self.malformed("a quantifier after a quantifier", again)
        return Loop(atom, low, high, column)

    def bounds(self) -> tuple[int, int | None] | None:
        """The quantifier here, if there is one (a brace that is none is a literal brace)."""
        for mark, pair in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(mark):
                return pair
        start = self.at
        if not self.take("{") or self.peek("}"):
            self.at = start
            return None
        low = self.digits()
        high = self.digits() if self.take(",") else low
        if not self.take("}") or (self.dialect is ECMA and not low):
            self.at = start
            return None
        return int(low or 0), int(high) if high else None

    def digits(self) -> str:
        start = self.at
        while not self.done() and self.text[self.at] in _DIGITS:
            self.at += 1
        if self.at - start > 9:
            raise self.unsupported("a bound of more than nine digits", start)
        return self.text[start : self.at]

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
        if char in _DIGITS:
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
            if first != "0" or (not self.done() and self.text[self.at] in _DIGITS):
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
