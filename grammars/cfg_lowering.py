"""From a grammar's tree to an expression. Owns which rules are empty, and what may stand between
terminals.

A rule that derives nothing is nothing where it is used; one that derives the empty text is optional
there. So every reference is to texts of at least one byte. Whether a rule derives anything depends
on the bytes of the vocabulary, so this is found out here and not by the parser.
It must not know of left recursion.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from grammars.algebra import Algebra, literal_bytes
from grammars.cfg_checks import terminals_in_order
from grammars.cfg_costs import Costs, Need
from grammars.cfg_parts import nonempty
from grammars.cfg_rules import GrammarRules
from grammars.cfg_tree import (
    GrammarTree,
    Items,
    Node,
    Options,
    Symbol,
    Text,
    Times,
    is_terminal,
    parts_of,
    symbols_of,
)
from grammars.charset import utf8
from grammars.expr import Expr
from grammars.regex_lowering import lower_full

MAX_INLINED = 16
"""Operators in one another of a terminal that is written out where it is used; a deeper one is a
reference, so that no expression is deep however long a chain of terminals is."""

MANY_WORDS = 8
"""So many literal alternatives are searched in a table instead of one by one."""


class Lowering:
    """The expressions of one grammar in one algebra."""

    def __init__(self, algebra: Algebra, tree: GrammarTree, start: str) -> None:
        self._algebra = algebra
        self._tree = tree
        self._start = Symbol(start, 0)
        self._rules = GrammarRules(algebra)
        self._texts: dict[Text, Expr] = {}
        self._terminals: dict[str, Expr] = {}
        self._used = self._reachable()
        roots = [self._start, *(entry.node for entry in tree.ignored)]
        self._lower_texts(roots)
        self._least: Costs[Node] = Costs(self._need)
        self._least.solve(roots)
        self._filled: Costs[Node] = Costs(self._need_of_filled)
        self._filled.solve(roots)
        self._between: Expr = algebra.epsilon

    def whole(self) -> Expr:
        """The texts of the start symbol; EMPTY where it derives none."""
        algebra = self._algebra
        bodies: dict[Hashable, Expr] = {}
        depths: dict[str, int] = {}
        for name in terminals_in_order(self._tree):
            if name in self._used:
                self._begin(name)
                self._define_terminal(name, depths, bodies)
        self._between = algebra.optional(
            algebra.union([self._lower(entry.node, inside=True) for entry in self._tree.ignored])
        )
        for name in self._used:
            if not is_terminal(name) and self._is_filled(Symbol(name, 0)):
                self._begin(name)
                body = self._lower(self._tree.definitions[name].body, inside=False)
                bodies[name] = nonempty(algebra, body)
        self._rules.define(bodies)
        return algebra.concat(self._between, self._lower(self._start, inside=False))

    def _begin(self, name: str) -> None:
        """From here on what costs is of this definition."""
        budget = self._algebra.budget
        budget.at_column(self._tree.definitions[name].offset)
        if budget.at is not None:
            self._rules.places[name] = budget.at

    def _reachable(self) -> dict[str, None]:
        """The names that the start symbol and the ignored terminals lead to."""
        pending = [self._start.name]
        pending += [e.node.name for e in self._tree.ignored if isinstance(e.node, Symbol)]
        found: dict[str, None] = {}
        while pending:
            name = pending.pop()
            if name not in found:
                found[name] = None
                body = self._tree.definitions[name].body
                pending += [symbol.name for symbol in symbols_of(body)]
        return found

    # -- what derives anything ---------------------------------------------------------------------

    def _lower_texts(self, roots: Iterable[Node]) -> None:
        """The expressions of all characters in use, and what of them has no text."""
        pending = [*roots, *(self._tree.definitions[name].body for name in self._used)]
        while pending:
            node = pending.pop()
            pending += parts_of(node)
            if isinstance(node, Text):
                self._texts[node] = lower_full(self._algebra, node.tree, utf8)
        costs = self._rules.costs
        costs.solve(self._texts.values())
        for node, made in self._texts.items():
            if made not in costs.cost:
                self._texts[node] = self._algebra.empty

    def _need(self, node: Node) -> Need[Node]:
        """What the shortest text of a node is made of; no cost: it has none."""
        if isinstance(node, Text):
            made = self._texts[node]
            if made is self._algebra.empty:
                return Need("least")
            return Need("fixed", number=self._rules.costs.cost[made])
        if isinstance(node, Symbol):
            return Need("least", (self._tree.definitions[node.name].body,))
        if isinstance(node, Items):
            return Need("sum", node.items) if node.items else Need("fixed")
        if isinstance(node, Options):
            return Need("least", node.options)
        return Need("times", (node.body,), node.low) if node.low else Need("fixed")

    def _need_of_filled(self, node: Node) -> Need[Node]:
        """What a text of a node with a first byte is made of; no cost: it has none."""
        self._least.solve([node])  # what is optional was of no account for the shortest text
        if node not in self._least.cost:
            return Need("least")
        if isinstance(node, Text):
            is_filled = self._texts[node] is not self._algebra.epsilon
            return Need("fixed") if is_filled else Need("least")
        if isinstance(node, Symbol):
            return Need("least", (self._tree.definitions[node.name].body,))
        if isinstance(node, Times) and node.high == 0:
            return Need("least")
        return Need("least", parts_of(node))

    def _is_filled(self, symbol: Symbol) -> bool:
        """Whether a rule has a text with a first byte."""
        return self._tree.definitions[symbol.name].body in self._filled.cost

    # -- expressions -------------------------------------------------------------------------------

    def _lower(self, node: Node, *, inside: bool) -> Expr:
        """A node's expression; `inside` of a terminal nothing is ignored."""
        algebra = self._algebra
        if isinstance(node, Text):
            return self._texts[node] if inside else self._spaced(self._texts[node])
        if isinstance(node, Symbol):
            if is_terminal(node.name):
                made = self._terminals[node.name]
                return made if inside else self._spaced(made)
            return self._used_as(node.name)
        if isinstance(node, Items):
            return algebra.sequence([self._lower(item, inside=inside) for item in node.items])
        if isinstance(node, Options):
            return self._any_of(node.options, inside=inside)
        return algebra.repeat(self._lower(node.body, inside=inside), node.low, node.high)

    def _spaced(self, terminal: Expr) -> Expr:
        """A terminal, and what may stand between it and the next."""
        if self._between is self._algebra.epsilon:
            return terminal
        made = self._algebra.concat(nonempty(self._algebra, terminal), self._between)
        return self._algebra.optional(made) if terminal.nullable else made

    def _used_as(self, name: str) -> Expr:
        """A definition in its place: nothing, the empty text, a reference or an optional one."""
        algebra = self._algebra
        body = self._tree.definitions[name].body
        if body not in self._least.cost:
            return algebra.empty
        made = self._rules.ref(name) if body in self._filled.cost else algebra.epsilon
        return algebra.optional(made) if self._least.cost[body] == 0 else made

    def _any_of(self, options: tuple[Node, ...], *, inside: bool) -> Expr:
        """Any of the options; the literal ones, when they are many, as a table of words."""
        words: set[bytes] = set()
        others = []
        for option in options:
            data = literal_bytes(self._texts[option]) if isinstance(option, Text) else None
            if data is None:
                others.append(self._lower(option, inside=inside))
            else:
                words.add(data)
        if len(words) >= MANY_WORDS:
            table = self._algebra.words(words)
            return self._algebra.union([*others, table if inside else self._spaced(table)])
        return self._algebra.union([self._lower(option, inside=inside) for option in options])

    def _define_terminal(
        self, name: str, depths: dict[str, int], bodies: dict[Hashable, Expr]
    ) -> None:
        """A terminal's expression, written out, or a reference where it is a deep one."""
        body = self._tree.definitions[name].body
        made = self._lower(body, inside=True)
        depth = _depth(body, depths)
        if depth > MAX_INLINED and body in self._filled.cost:
            bodies[name] = nonempty(self._algebra, made)
            made, depth = self._used_as(name), 1
        self._terminals[name] = made
        depths[name] = depth


def _depth(node: Node, depths: dict[str, int]) -> int:
    """The operators in one another, terminals that are written out included."""
    if isinstance(node, Symbol):
        return depths[node.name]
    return 1 + max((_depth(part, depths) for part in parts_of(node)), default=0)
