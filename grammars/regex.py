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
import warnings
from dataclasses import replace

from grammars.charset import (
    ANY,
    invert,
)
from grammars.errors import GrammarError
from grammars.regex_scanner import DIGITS, Scanner, shown
from grammars.regex_tree import ECMA, PYTHON, Alt, Anchor, Chars, Dialect, Loop, Seq, Tree

MAX_NESTING = 100
"""Groups inside groups; real patterns stay below 20, and every level costs Python stack."""


_REFUSED_GROUPS = {
    "=": "look-ahead",
    "!": "look-ahead",
    "<=": "look-behind",
    "<!": "look-behind",
    ">": "an atomic group",
    "P=": "a back-reference",
    "(": "a conditional group",
}
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
            message = f"the pattern {shown(pattern)} is malformed: {error}"
            raise GrammarError(message, column) from None
    return tree


class _Parser(Scanner):
    """A recursive-descent parser."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        super().__init__(pattern, dialect)
        self.nesting = 0

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
        return tree

    def group_kind(self, column: int) -> bool:
        """Reads what follows `(?`; False when it was global flags, which hold no group."""
        if self.take(":"):
            return True
        for mark, what in _REFUSED_GROUPS.items():
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
            if letter == "m":
                raise self.unsupported("the flag 'm'", column)
            if letter not in _FLAG_OF and letter != "u":
                raise self.malformed(f"the flag {letter!r} is unknown", column)
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
        while not self.done() and self.text[self.at] in DIGITS:
            self.at += 1
        if self.at - start > 9:
            raise self.unsupported("a bound of more than nine digits", start)
        return self.text[start : self.at]
