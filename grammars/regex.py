"""The structure of patterns: text to a tree over code points. Owns both dialects' groups,
quantifiers and flags.

* `PYTHON` is the syntax of `re` for str patterns, and `\\p{...}`.
* `ECMA` is ECMA-262 with the flag u, as JSON Schema's `pattern` asks: `\\d` and `\\w` are ASCII,
  `$` is the end only, a dot also stops at `\\r`, U+2028 and U+2029. What that flag forbids, and
  still has one meaning, is taken (`[\\w-.]`, `\\_`).

What describes no regular language (back-references, conditional groups), and the few atomic groups
that conditions cannot say, are refused with their column; nothing is dropped.
It must not know how a tree becomes an expression (that is `regex_lowering`).
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace

from grammars.charset import ANY, invert
from grammars.errors import GrammarError
from grammars.regex_atomic import Atomizer
from grammars.regex_looks import dollar, line_end, line_start, look, looks_beyond, text_start
from grammars.regex_scanner import DIGITS, Flags, Scanner, shown
from grammars.regex_tree import ECMA, NOTHING, PYTHON, Chars, Dialect, Loop, Tree, any_of, sequence

MAX_DEPTH = 200
"""Levels of a tree. Each costs up to three frames of Python's stack, which has a thousand. A group
that only holds another group is no level; real patterns stay below 30.
"""

_FLAG_OF = {"i": "ignore_case", "s": "dot_all", "a": "ascii", "x": "verbose", "m": "multi_line"}
_LOOKS = {
    "=": ("ahead", False),
    "!": ("ahead", True),
    "<=": ("behind", False),
    "<!": ("behind", True),
}
_REFUSED_GROUPS = {"P=": "a back-reference", "(": "a conditional group", "P>": "recursion"}


def parse(pattern: str, dialect: Dialect = PYTHON) -> Tree:
    """The tree of `pattern`; raises GrammarError or UnsupportedError with the column in
    `position`.
    """
    parser = _Parser(pattern, dialect)
    tree = parser.parse()
    if dialect is PYTHON:  # `re` has the last word on what is malformed
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(parser.without_properties())
        except (re.error, OverflowError) as error:
            column = parser.original_column(getattr(error, "pos", None))
            message = f"the pattern {shown(pattern)} is malformed: {error}"
            raise GrammarError(message, column) from None
        except RecursionError:  # nested deeper than `re` can read: ours are the only checks
            pass
    return tree


@dataclass(slots=True)
class _Group:
    """A group that is open: what it is, and what stands in it so far."""

    kind: str = "group"
    negated: bool = False
    column: int = 0
    flags: Flags = field(default_factory=Flags)
    options: list[Tree] = field(default_factory=list)
    items: list[Tree] = field(default_factory=list)

    def tree(self) -> Tree:
        """The tree of what stands in it."""
        return any_of([*self.options, sequence(self.items)])


class _Parser(Scanner):
    """Reads a pattern from left to right, with the open groups on a stack of its own."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        super().__init__(pattern, dialect)
        self.open = [_Group()]
        self.atomizer = Atomizer(self.unsupported)

    def parse(self) -> Tree:
        while not self.done():
            if self.flags.verbose and self.skip_verbose():
                continue
            self.item()
        if len(self.open) > 1:
            raise self.malformed("a group that is not closed", self.open[-1].column)
        return self.checked(self.open[0].tree(), 0)

    def skip_verbose(self) -> bool:
        if self.text[self.at] in " \t\n\r\v\f":
            self.at += 1
        elif self.peek("#"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            return False
        return True

    def item(self) -> None:
        """One item with its quantifier, or a bracket."""
        column = self.at
        char = self.next()
        if char == "(":
            self.enter(column)
        elif char == "|":
            group = self.open[-1]
            group.options.append(sequence(group.items))
            group.items = []
        elif char == ")":
            self.leave(column)
        else:
            self.open[-1].items.append(self.quantified(self.atom(char, column), column))

    def atom(self, char: str, column: int) -> Tree:
        """One item that is no group; its first character is read."""
        if char == "[":
            return Chars(self.char_class(column))
        if char == ".":
            return Chars(ANY if self.flags.dot_all else invert(self.dialect.line_ends))
        if char == "^":
            is_line = self.flags.multi_line
            return line_start(column, self.dialect) if is_line else text_start(column)
        if char == "$":
            is_line = self.flags.multi_line
            return line_end(column, self.dialect) if is_line else dollar(column, self.dialect)
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

    def enter(self, column: int) -> None:
        """Opens a group, or reads a comment or the flags of the whole pattern."""
        group = _Group(column=column, flags=self.flags)
        if self.take("?"):
            if self.take("#"):
                end = self.text.find(")", self.at)
                if end < 0:
                    raise self.malformed("a comment that is not closed", column)
                self.at = end + 1
                return
            if not self.group_kind(group):
                return
        self.open.append(group)

    def group_kind(self, group: _Group) -> bool:
        """Reads what follows `(?`; False when it was global flags, which hold no group."""
        column = group.column
        if self.take(":"):
            return True
        for mark, (kind, negated) in _LOOKS.items():
            if self.take(mark):
                group.kind, group.negated = kind, negated
                return True
        if self.dialect is PYTHON and self.take(">"):
            group.kind = "atomic"
            return True
        for mark, what in _REFUSED_GROUPS.items():
            if self.peek(mark):
                raise self.unsupported(what, column)
        if self.take("P<" if self.dialect is PYTHON else "<"):
            end = self.text.find(">", self.at)
            if end < 0 or not self.is_name(self.text[self.at : end]):
                raise self.malformed("a group's name that is no identifier", column)
            self.at = end + 1
            return True
        return self.inline_flags(column)

    def is_name(self, name: str) -> bool:
        """Whether a group may be called so: in ECMA-262, `$` counts as a letter."""
        return (name if self.dialect is PYTHON else name.replace("$", "_")).isidentifier()

    def inline_flags(self, column: int) -> bool:
        on, off = self.flag_letters(), ""
        if self.take("-"):
            off = self.flag_letters()
        scoped = self.take(":")
        if not scoped and not self.take(")") or not on + off:
            raise self.malformed("an unknown kind of group", column)
        for letter in on + off:
            if letter not in _FLAG_OF and letter != "u":
                raise self.malformed(f"the flag {letter!r} is unknown", column)
        if not scoped and self.dialect is ECMA:
            raise self.malformed("an unknown kind of group", column)
        changed = {_FLAG_OF[c]: c in on for c in on + off if c in _FLAG_OF}
        if "u" in on:
            changed["ascii"] = False
        self.flags = replace(self.flags, **changed)
        return scoped

    def flag_letters(self) -> str:
        start = self.at
        while not self.done() and self.text[self.at].isalpha():
            self.at += 1
        return self.text[start : self.at]

    def leave(self, column: int) -> None:
        """Closes the innermost group, and reads its quantifier."""
        if len(self.open) == 1:
            raise self.malformed("a closing parenthesis without its opening one", column)
        group = self.open.pop()
        self.flags = group.flags
        tree = self.checked(group.tree(), group.column)
        if group.kind in ("ahead", "behind"):
            is_ahead = group.kind == "ahead"
            if not is_ahead and self.dialect is PYTHON and tree.facts.low != tree.facts.high:
                why = "a look-behind for texts of different lengths; give each its own"
                raise self.malformed(why, group.column)
            tree = look(tree, group.column, is_ahead=is_ahead, negated=group.negated)
            if looks_beyond(tree):
                what = "a look-behind with a look-ahead in its midst that sees beyond it"
                raise self.unsupported(what, group.column)
        elif group.kind == "atomic":
            tree = self.atomizer.atomic(tree, group.column)
        tree = self.quantified(self.checked(tree, group.column), group.column)
        self.open[-1].items.append(tree)

    def checked(self, tree: Tree, column: int) -> Tree:
        """`tree`, unless it is nested too deep."""
        if tree.facts.depth > MAX_DEPTH:
            what = f"more than {MAX_DEPTH} levels of groups and look-around"
            raise self.unsupported(what, column)
        return tree

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
        if self.is_place(column):
            raise self.malformed("an anchor cannot be repeated", at)
        possessive = self.dialect is PYTHON and self.take("+")
        greedy = possessive or not self.take("?")
        again = self.at
        if not self.done() and self.bounds() is not None:
            raise self.malformed("a quantifier after a quantifier", again)
        if high == 0:
            return NOTHING
        loop = Loop(atom, low, high, column, greedy)
        return self.atomizer.possessive(loop, at) if possessive else loop

    def is_place(self, column: int) -> bool:
        """Whether the item that begins at `column` is a place, which takes no quantifier."""
        return self.text[column] in "^$" or (
            self.text[column] == "\\" and self.text[column + 1] in "AZzbB"
        )

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
