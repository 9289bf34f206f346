"""Trees without look-around as expressions. Owns the one encoding of a pattern's characters.

Such a tree means the same wherever it stands. It must not know of look-around.
"""

from __future__ import annotations

from grammars.algebra import Algebra, literal_bytes
from grammars.charset import Encoder, Ranges
from grammars.expr import Expr
from grammars.regex_tree import ANYTHING, Alt, Chars, Loop, Seq, Tree

MANY_WORDS = 8
"""So many literal alternatives are searched in a table instead of one by one."""


class Plain:
    """Lowers the trees of one pattern that hold no look-around."""

    def __init__(self, algebra: Algebra, encode: Encoder) -> None:
        self.algebra = algebra
        self._encode = encode
        self._sets: dict[Ranges, Expr] = {}
        self._known: dict[Tree, Expr] = {}

    def chars(self, ranges: Ranges) -> Expr:
        """One character of a set."""
        if ranges not in self._sets:
            self._sets[ranges] = self._encode(self.algebra, ranges)
        return self._sets[ranges]

    def text(self, tree: Tree) -> Expr:
        """The texts of a tree. One frame of Python's stack a level: `map` is no comprehension."""
        if tree in self._known:
            return self._known[tree]
        algebra = self.algebra
        if isinstance(tree, Chars):
            found = self.chars(tree.ranges)
        elif isinstance(tree, Seq):
            found = algebra.sequence(list(map(self.text, tree.items)))
        elif isinstance(tree, Alt):
            found = any_option(algebra, list(map(self.text, tree.options)))
        elif tree is ANYTHING:  # what is looked at is well-formed by itself
            found = algebra.full
        else:
            assert isinstance(tree, Loop), "a tree without look-around"
            body = self.text(tree.body)
            algebra.budget.at_column(tree.column)
            found = algebra.repeat(body, tree.low, tree.high)
            if algebra.budget.columns is not None and algebra.budget.at is not None:
                algebra.places.setdefault(found, algebra.budget.at)
        self._known[tree] = found
        return found


def any_option(algebra: Algebra, options: list[Expr]) -> Expr:
    """Any of the options; the literal ones, when they are many, as a table of words."""
    literals = {data for option in options if (data := literal_bytes(option)) is not None}
    if len(literals) < MANY_WORDS:
        return algebra.union(options)
    others = [option for option in options if literal_bytes(option) is None]
    return algebra.union([*others, algebra.words(literals)])
