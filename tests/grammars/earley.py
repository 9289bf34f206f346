"""An independent judge of context-free grammars: a naive Earley recogniser, and random grammars.

Nothing here is shared with the package: terms are written as text for it, and turned into plain
productions for the recogniser. Source: J. Earley, "An efficient context-free parsing algorithm",
1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st

Productions = dict[str, list[tuple[str, ...]]]
"""Alternatives by name; a symbol that is no name is a character."""

Term = tuple[Any, ...]
"""("text", s), ("name", n), ("seq", *terms), ("alt", *terms) or ("loop", term, low, high)."""

Item = tuple[str, tuple[str, ...], int, int]
"""A name, one of its alternatives, how far it is read, and where it began."""


class Earley:
    """The sets of items for a text, one character after another."""

    def __init__(self, productions: Productions, start: str) -> None:
        self.rules = _productive(productions)
        self.start = start
        self.sets: list[set[Item]] = []
        self._close({(start, body, 0, 0) for body in self.rules.get(start, [])})

    def read(self, text: str) -> bool:
        """Reads on; whether some text of the language begins with all that was read."""
        for char in text:
            self._close(
                {
                    (name, body, at + 1, origin)
                    for name, body, at, origin in self.sets[-1]
                    if at < len(body) and body[at] == char and char not in self.rules
                }
            )
        return bool(self.sets[-1])

    def back(self, length: int) -> None:
        """Takes characters back."""
        if length:
            del self.sets[-length:]

    def is_complete(self) -> bool:
        """Whether what was read is a text of the language."""
        return any(
            name == self.start and at == len(body) and origin == 0
            for name, body, at, origin in self.sets[-1]
        )

    def _close(self, items: set[Item]) -> None:
        """Predicts and completes until nothing new comes."""
        here = len(self.sets)
        self.sets.append(items)
        size = -1
        while len(items) != size:
            size = len(items)
            for name, body, at, origin in list(items):
                if at == len(body):
                    items |= {
                        (other, outer, point + 1, begun)
                        for other, outer, point, begun in list(self.sets[origin])
                        if point < len(outer) and outer[point] == name
                    }
                elif body[at] in self.rules:
                    items |= {(body[at], inner, 0, here) for inner in self.rules[body[at]]}


def _productive(productions: Productions) -> Productions:
    """Without the alternatives that derive no text."""
    good: set[str] = set()
    size = -1
    while len(good) != size:
        size = len(good)
        for name, bodies in productions.items():
            if any(all(s in good or s not in productions for s in body) for body in bodies):
                good.add(name)
    return {
        name: [b for b in bodies if all(s in good or s not in productions for s in b)]
        for name, bodies in productions.items()
    }


def accepts(productions: Productions, start: str, text: str) -> bool:
    """Whether a text is in the language."""
    earley = Earley(productions, start)
    return earley.read(text) and earley.is_complete()


def language(productions: Productions, start: str, alphabet: str, longest: int) -> set[str]:
    """All texts of up to `longest` characters."""
    earley = Earley(productions, start)
    found: set[str] = set()

    def extend(text: str) -> None:
        if not earley.sets[-1]:
            return
        if earley.is_complete():
            found.add(text)
        if len(text) < longest:
            for char in alphabet:
                earley.read(char)
                extend(text + char)
                earley.back(1)

    extend("")
    return found


# -- random grammars -------------------------------------------------------------------------------


def written(rules: Mapping[str, Term]) -> str:
    """The grammar as its text."""
    return "\n".join(f"{name}: {_written(term)}" for name, term in rules.items())


def _written(term: Term) -> str:
    kind, *rest = term
    if kind == "text":
        return f'"{rest[0]}"' if rest[0] else "()"
    if kind == "name":
        return str(rest[0])
    if kind == "loop":
        body, low, high = rest
        mark = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high), f"~{low}..{high}")
        return f"({_written(body)}){mark}"
    return f"({(' ' if kind == 'seq' else ' | ').join(map(_written, rest))})"


def productions_of(rules: Mapping[str, Term]) -> Productions:
    """The grammar as plain productions, every operator a name of its own."""
    found: Productions = {}
    fresh = count()

    def name_of(bodies: Sequence[tuple[str, ...]]) -> str:
        name = f"<{next(fresh)}>"
        found[name] = list(bodies)
        return name

    def symbols(term: Term) -> tuple[str, ...]:
        kind, *rest = term
        if kind == "text":
            return tuple(rest[0])
        if kind == "name":
            return (rest[0],)
        if kind == "seq":
            return tuple(symbol for part in rest for symbol in symbols(part))
        if kind == "alt":
            return (name_of([symbols(part) for part in rest]),)
        body, low, high = symbols(rest[0]), rest[1], rest[2]
        after: tuple[str, ...] = ()
        if high is None:
            again = name_of([()])
            found[again].append((*body, again))
            after = (again,)
        else:
            for _ in range(high - low):
                after = (name_of([(), (*body, *after)]),)
        return (*(body * low), *after)

    for name, term in rules.items():
        found[name] = [symbols(term)]
    return found


NAMES = ("r", "s", "t", "u")

_leaves = st.one_of(
    st.sampled_from(["a", "b", "ab", ""]).map(lambda text: ("text", text)),
    st.sampled_from(NAMES).map(lambda name: ("name", name)),
    st.sampled_from(NAMES).map(lambda name: ("name", name)),
)
_bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (0, 2)])
_terms: st.SearchStrategy[Term] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("seq", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("alt", *parts)),
        st.tuples(inner, _bounds).map(lambda pair: ("loop", pair[0], *pair[1])),
    ),
    max_leaves=6,
)
random_rules: st.SearchStrategy[dict[str, Term]] = st.fixed_dictionaries(
    dict.fromkeys(NAMES, _terms)
)
"""Four rules over a and b: left-recursive, ambiguous, nullable, unproductive as they come."""
