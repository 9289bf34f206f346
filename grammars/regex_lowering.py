"""From a pattern's tree to a byte-level expression: the entry. It must not know of tokens or of
JSON Schema.

A tree without look-around is lowered part by part (`regex_plain`). Where look-around makes a part
depend on what stands around it, its places are told apart (`regex_places`, `regex_equations`).
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.charset import Encoder
from grammars.expr import Expr
from grammars.regex_equations import Equations
from grammars.regex_plain import Plain
from grammars.regex_tree import Seq, Tree, any_text


def lower_full(algebra: Algebra, tree: Tree, encode: Encoder) -> Expr:
    """The texts that the whole of the pattern matches (`re.fullmatch`)."""
    plain = Plain(algebra, encode)
    return Equations(plain, tree).text() if tree.facts.looks else plain.text(tree)


def lower_search(algebra: Algebra, tree: Tree, encode: Encoder) -> Expr:
    """The texts in which the pattern matches somewhere (JSON Schema's `pattern`)."""
    return lower_full(algebra, Seq((any_text(), tree, any_text())), encode)


def has_anchor(tree: Tree) -> bool:
    """Whether a place or look-around stands anywhere inside."""
    return tree.facts.looks
