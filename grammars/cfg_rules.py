"""A grammar's rules as references. Owns the invariants that their maker vouches for.

* No reference is to an empty language, and none has the empty text: `cfg_lowering` sees to both.
* `unfold` never comes back to its key before a byte: groups of left-recursive rules are rewritten.
* `unfold` derives what a rule begins with before the rule itself, in a loop: a chain of thousands
  of rules takes no deeper stack than one.
* `least` holds no reference at all: the cheapest derivation, written out.

It must not know of a grammar's text.
"""

from __future__ import annotations

from collections.abc import Hashable

from grammars.algebra import Algebra
from grammars.budget import At
from grammars.cfg_costs import Costs, Need
from grammars.cfg_parts import corners
from grammars.cfg_recursion import After, Group, groups
from grammars.derive import arms
from grammars.errors import CompileBudgetError
from grammars.expr import ByteSet, Concat, Epsilon, Expr, Literal, Ref, Repeat, Union, Words

MAX_LEAST = 100_000
"""Bytes of a rule's shortest text: no budget of tokens is beyond, and every byte is a cell of the
plan to finish."""

TRIED_OPTIONS = 8
"""Alternatives of a rule that are tried as its shortest text: the tokens decide among them."""


class GrammarRules:
    """Rules by key, each an expression of texts with a first byte; see `expr.Rules`."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._bodies: dict[Hashable, Expr] = {}
        self._group_of: dict[Hashable, Group] = {}
        self._unfolded: dict[Hashable, Expr] = {}
        self._derived: set[Hashable] = set()
        self._least: dict[Hashable, Expr] = {}
        self._with_refs: set[Expr] = set()
        self.places: dict[Hashable, At] = {}
        """Where rules are defined."""
        self.costs: Costs[Expr] = Costs(self._need)

    def ref(self, key: Hashable) -> Expr:
        """A reference to a rule."""
        return self._algebra.ref(self, key)

    def define(self, bodies: dict[Hashable, Expr]) -> None:
        """Gives every rule its expression.

        Raises CompileBudgetError where even the shortest text of a rule is out of reach.
        """
        self._bodies = bodies
        graph = {key: list(corners(body)) for key, body in bodies.items()}
        for members in groups(graph):
            group = Group(self._algebra, {key: bodies[key] for key in members}, self.ref)
            self._group_of |= dict.fromkeys(members, group)
        self._measure(list(bodies.values()))
        for key, body in bodies.items():
            if self.costs.cost[body] > MAX_LEAST:
                at = self.places.get(key)
                where, position = (", defined " + at.words, at.position) if at else ("", None)
                raise CompileBudgetError(
                    f"the shortest text of {key!r}{where} has more than {MAX_LEAST} bytes; "
                    "make it shorter, or take it out of the grammar",
                    position,
                )

    # -- references --------------------------------------------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        """The expression that `key` stands for."""
        if key not in self._derived:
            self._at(key)
            self._derive(key)
        return self._unfolded[key]

    def least(self, key: Hashable) -> Expr:
        """A few of its shortest texts, without any reference."""
        if key not in self._least:
            self._at(key)
            self._least[key] = self._shortest(key)
        return self._least[key]

    def _at(self, key: Hashable) -> None:
        name = key.first if isinstance(key, After) else key
        self._algebra.budget.at = self.places.get(name, self._algebra.budget.at)

    def _derive(self, root: Hashable) -> None:
        """Derives a rule, after those that it begins with."""
        entered: set[Hashable] = set()
        pending = [root]
        while pending:
            key = pending[-1]
            body = self._body(key)
            before = [corner for corner in corners(body) if corner not in self._derived]
            if before and key not in self._derived:
                assert key not in entered, f"{key!r} begins with itself"
                entered.add(key)
                pending += before
                continue
            arms(self._algebra, body)
            self._derived.add(key)
            pending.pop()

    def _body(self, key: Hashable) -> Expr:
        """What a key stands for, without left recursion."""
        if key not in self._unfolded:
            group = self._group_of.get(key.first if isinstance(key, After) else key)
            if group is None:
                self._unfolded[key] = self._bodies[key]
            elif isinstance(key, After):
                self._unfolded[key] = group.cell(key)
            else:
                self._unfolded[key] = group.rewritten(key)
        return self._unfolded[key]

    # -- the shortest texts ------------------------------------------------------------------------

    def _shortest(self, key: Hashable) -> Expr:
        algebra = self._algebra
        if isinstance(key, After):
            way = self._group_of[key.first].cheapest(key, self._cost)
            return algebra.sequence([part for step in way for part in self._written(step)])
        body = self._bodies[key]
        options = list(body.options) if isinstance(body, Union) else [body]
        options.sort(key=self._cost)
        near = [o for o in options[:TRIED_OPTIONS] if self._cost(o) <= self._cost(body) + 64]
        return algebra.union([algebra.sequence(self._written(option)) for option in near])

    def _cost(self, node: Expr) -> int:
        """The bytes of the shortest string of any expression over these rules."""
        self._measure([node])
        return self.costs.cost[node]

    def _written(self, node: Expr) -> list[Expr]:
        """The cheapest derivation, from left to right; parts without references stay whole."""
        algebra = self._algebra
        found: list[Expr] = []
        pending = [node]
        while pending:
            here = pending.pop()
            if here.nullable:
                continue
            if here not in self._with_refs:
                found.append(here)
            elif isinstance(here, Concat):
                pending += [here.tail, here.head]
            elif isinstance(here, Repeat):
                round_ = algebra.sequence(self._written(here.body))
                found.append(algebra.repeat(round_, here.low, here.low))
            else:
                chosen = self.costs.choice[here]
                assert chosen is not None, "alternatives and references are made of others"
                pending.append(chosen)
        return found

    def _measure(self, roots: list[Expr]) -> None:
        """Finds the costs of these, and which of them hold references."""
        new = [root for root in roots if root not in self.costs.cost]
        if not new:
            return
        self.costs.solve(new)
        order: list[Expr] = []
        seen: set[Expr] = set()
        while new:  # parts of one expression come before it in the reverse of this order
            here = new.pop()
            order.append(here)
            if here in seen:
                continue
            seen.add(here)
            if isinstance(here, Ref):
                self._with_refs.add(here)
            else:
                new += _below(here)
        for here in reversed(order):
            if not self._with_refs.isdisjoint(_below(here)):
                self._with_refs.add(here)

    def _need(self, node: Expr) -> Need[Expr]:
        """What the shortest string of an expression is made of."""
        if node.nullable:
            return Need("fixed")
        if isinstance(node, ByteSet):
            return Need("fixed", number=1)
        if isinstance(node, Literal):
            return Need("fixed", number=len(node.data))
        if isinstance(node, Words):
            lengths = (len(word) for word in node.table[node.first : node.last])
            return Need("fixed", number=min(lengths) - node.depth)
        if isinstance(node, Concat):
            return Need("sum", (node.head, node.tail))
        if isinstance(node, Union):
            return Need("least", node.options)
        if isinstance(node, Repeat):
            return Need("times", (node.body,), node.low)
        if isinstance(node, Ref):
            return Need("least", (self._bodies[node.key],))
        length = None if node is self._algebra.empty else _search(self._algebra, node)
        return Need("least") if length is None else Need("fixed", number=length)


def _below(node: Expr) -> tuple[Expr, ...]:
    """The expressions right inside."""
    if isinstance(node, Concat):
        return (node.head, node.tail)
    if isinstance(node, Union):
        return node.options
    return (node.body,) if isinstance(node, Repeat) else ()


def _search(algebra: Algebra, node: Expr) -> int | None:
    """The bytes of the shortest string, level by level; None when there is none."""
    assert not isinstance(node, Epsilon), "the empty text needs no search"
    seen = {node}
    level = [node]
    length = 0
    while level:
        if any(here.nullable for here in level):
            return length
        following = dict.fromkeys(rest for here in level for _, rest in arms(algebra, here))
        level = [rest for rest in following if rest not in seen]
        algebra.budget.spend(len(level))
        seen.update(level)
        length += 1
    return None
