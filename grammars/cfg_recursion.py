"""Left recursion, rewritten exactly. Owns the groups of rules that begin with each other.

For the rules X of one group, X_i -> b_i | X_j A_ji is the equation X = b + X A over a row of
languages and a matrix of them, so X = b A*. What remains are rules that begin with b, and rules for
the cells of A*, made when they are asked for: no copies, no growth by substitution, and no cases
that are left out. Cells of A that may be empty are unit rules (matrix E); with them taken out,
X = b E* (A E*)*.

For one rule alone this is the well-known X -> b A*.
Source: D. Rosenkrantz, "Matrix equations and normal forms for context-free grammars", JACM 14(3),
1967.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from grammars.algebra import Algebra
from grammars.cfg_parts import nonempty, split
from grammars.expr import Expr


class After(NamedTuple):
    """The key of a cell: what makes a text of rule `last` when it follows one of rule `first`."""

    first: Hashable
    last: Hashable


class Group:
    """Rules that can begin with each other, by their keys and expressions.

    `ref` makes a reference to a key; what it is given to are rules of texts with a first byte.
    """

    def __init__(
        self, algebra: Algebra, rules: Mapping[Hashable, Expr], ref: Callable[[Hashable], Expr]
    ) -> None:
        self._algebra = algebra
        self._rules = rules
        self._ref = ref
        self._rows: dict[Hashable, dict[Hashable, Expr]] = {}
        self._reached: dict[Hashable, dict[Hashable, None]] = {}

    def rewritten(self, key: Hashable) -> Expr:
        """The same language as the rule's, beginning with none of the group."""
        algebra = self._algebra
        bases, _, _ = self._equation
        if len(self._rules) == 1:
            again = self.row(key).get(key, algebra.empty)
            return algebra.concat(bases[key], algebra.repeat(again, 0, None))
        begun: dict[Hashable, list[Expr]] = {}
        for origin, base in bases.items():
            for unit in self._units(origin):
                begun.setdefault(unit, []).append(base)
        return algebra.union(
            [algebra.concat(algebra.union(begun[j]), self._cell(j, key)) for j in begun]
        )

    def cell(self, key: After) -> Expr:
        """What a cell stands for, the empty text left out."""
        algebra = self._algebra
        row = self.row(key.first)
        return algebra.union([algebra.concat(row[k], self._cell(k, key.last)) for k in row])

    def row(self, key: Hashable) -> dict[Hashable, Expr]:
        """By rule, what makes a text of it directly when it follows a text of rule `key`."""
        if key not in self._rows:
            _, follow, _ = self._equation
            found: dict[Hashable, list[Expr]] = {}
            for maker, rest in follow[key].items():
                for unit in self._units(maker):
                    found.setdefault(unit, []).append(rest)
            made = {unit: self._algebra.union(rests) for unit, rests in found.items()}
            empty = self._algebra.empty
            self._rows[key] = {unit: rest for unit, rest in made.items() if rest is not empty}
        return self._rows[key]

    def cheapest(self, key: After, cost: Callable[[Expr], int]) -> list[Expr]:
        """The cheapest way through the rows that makes a text of a cell."""
        ticket = count()
        heap: list[tuple[int, int, Hashable, list[Expr]]] = [(0, next(ticket), key.first, [])]
        done: set[Hashable] = set()
        while heap:
            total, _, here, way = heappop(heap)
            if way and here == key.last:
                return way
            if here in done:
                continue
            if way:  # the first rule may be the last as well
                done.add(here)
            for following, rest in self.row(here).items():
                if following not in done:
                    step = (total + cost(rest), next(ticket), following, [*way, rest])
                    heappush(heap, step)
        raise AssertionError("a cell that is referred to is not empty")

    @cached_property
    def _equation(
        self,
    ) -> tuple[
        dict[Hashable, Expr], dict[Hashable, dict[Hashable, Expr]], dict[Hashable, list[Hashable]]
    ]:
        """b; A by rows, without empty texts; and E, the cells of A that have the empty text."""
        bases: dict[Hashable, Expr] = {}
        follow: dict[Hashable, dict[Hashable, Expr]] = {key: {} for key in self._rules}
        units: dict[Hashable, list[Hashable]] = {key: [] for key in self._rules}
        for maker, body in self._rules.items():
            base, rests = split(self._algebra, body, self._rules.keys())
            if base is not self._algebra.empty:
                bases[maker] = base
            for first, rest in rests.items():
                if rest.nullable:
                    units[first].append(maker)
                follow[first][maker] = nonempty(self._algebra, rest)
        return bases, follow, units

    def _units(self, key: Hashable) -> Iterable[Hashable]:
        """The rules that have every text of rule `key` (itself among them)."""
        _, _, units = self._equation
        found = {key: None}
        pending = [key]
        while pending:
            new = [unit for unit in units[pending.pop()] if unit not in found]
            found.update(dict.fromkeys(new))
            pending += new
        return found

    def _cell(self, first: Hashable, last: Hashable) -> Expr:
        """A cell where it is used: optional on the diagonal, nothing where no way leads."""
        algebra = self._algebra
        nothing = algebra.epsilon if first == last else algebra.empty
        if last not in self._reach(first):
            return nothing
        return algebra.union([nothing, self._ref(After(first, last))])

    def _reach(self, first: Hashable) -> dict[Hashable, None]:
        """The rules of which texts can be made by following a text of rule `first`."""
        if first not in self._reached:
            found: dict[Hashable, None] = {}
            pending = [first]
            while pending:
                new = [key for key in self.row(pending.pop()) if key not in found]
                found.update(dict.fromkeys(new))
                pending += new
            self._reached[first] = found
        return self._reached[first]


def groups(graph: Mapping[Hashable, Iterable[Hashable]]) -> list[list[Hashable]]:
    """The strongly connected components with a cycle. A loop: the graph may be a long chain.

    Source: R. Tarjan, "Depth-first search and linear graph algorithms", 1972.
    """
    index: dict[Hashable, int] = {}
    low: dict[Hashable, int] = {}
    open_keys: dict[Hashable, None] = {}
    found = []
    for root in graph:
        path = [(root, iter(graph[root]))] if root not in index else []
        while path:
            key, following = path[-1]
            if key not in index:
                index[key] = low[key] = len(index)
                open_keys[key] = None
            for other in following:
                if other not in index:
                    path.append((other, iter(graph[other])))
                    break
                if other in open_keys:
                    low[key] = min(low[key], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[key])
                if low[key] == index[key]:
                    members = [open_keys.popitem()[0]]
                    while members[-1] != key:
                        members.append(open_keys.popitem()[0])
                    if len(members) > 1 or key in graph[key]:
                        found.append(members)
    return found
