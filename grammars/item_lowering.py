"""The items of arrays that count or compare them, as texts. Owns their states as references.

It must not know of keywords.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple, Protocol

from grammars.algebra import Algebra
from grammars.budget import At
from grammars.expr import ALL_BYTES, Expr, Part, Rank, Way
from grammars.item_order import Item, ItemOrder, ItemState
from grammars.json_values import JsonValue, parse_json, value_key
from grammars.shapes import Operand


class ItemLayout(Protocol):
    """How items are written."""

    algebra: Algebra
    comma: Expr

    def value(self, operand: Operand) -> Expr: ...

    def equal(self, value: JsonValue) -> Expr:
        """Every text of a value."""
        ...


Texts = tuple[bytes, ...] | None
"""The items so far, as they were written; None where they are not known."""


class _Between(NamedTuple):
    """Between two items; `is_begun`: the comma is written, or there is no item before."""

    state: ItemState
    texts: Texts
    is_begun: bool
    is_first: bool


class _Behind(NamedTuple):
    """Behind an item: the bytes of it so far (None: not known). `is_pending`: it cannot be passed
    (see `noting`), nor where nothing of it was noted.
    """

    state: ItemState
    texts: Texts
    written: bytes | None
    is_pending: bool = False

    @property
    def is_passable(self) -> bool:
        """Whether what follows is known."""
        return not self.is_pending and self.written != b""


class Items:
    """The rest of an array after some items, for each state of their order.

    Where it `remembers`, no two items are equal.
    """

    def __init__(self, order: ItemOrder, layout: ItemLayout, at: At, *, remembers: bool) -> None:
        self._order = order
        self._layout = layout
        self._at = at
        self._algebra = layout.algebra
        self._remembers = remembers
        self._others: dict[tuple[bytes, ...], Expr] = {}
        self._read: dict[bytes, Hashable] = {}
        self._equal: dict[bytes, Expr] = {}

    def ref(self, state: ItemState, texts: Texts, *, is_first: bool = False) -> Expr:
        """What may follow in a live state."""
        if next(self._order.steps(state), None) is None:
            return self._algebra.epsilon
        texts = texts if self._remembers else None
        found = self._between(_Between(state, texts, is_begun=is_first, is_first=is_first))
        is_optional = is_first and self._order.is_complete(state)
        return self._algebra.optional(found) if is_optional else found

    def _between(self, key: _Between) -> Expr:
        nullable = not key.is_begun and self._order.is_complete(key.state)
        rank = self._rank(key)
        if not self._remembers:
            return self._algebra.ref(self, key, nullable=nullable, rank=rank)
        pending = key.is_begun and key.texts is None
        return self._algebra.noting_ref(self, key, nullable=nullable, pending=pending, rank=rank)

    def _rank(self, key: _Between) -> Rank | None:
        """An array that has met more of what is counted can go on as any that has met less."""
        if not key.state.counts or not self._order.is_monotone:
            return None
        others = key._replace(state=key.state._replace(counts=()))
        return Rank(others, key.state.counts)

    def _behind(self, key: _Behind) -> Expr:
        nullable = key.is_passable and self._order.is_complete(key.state)
        return self._algebra.noting_ref(
            self, key, nullable=nullable, is_open=True, pending=not key.is_passable
        )

    # -- expressions of keys (see `expr.Rules`) ----------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        self._algebra.budget.at = self._at
        if isinstance(key, _Behind):
            return self._after_item(key) if key.is_passable else self._stuck(key)
        assert isinstance(key, _Between), "a key is a place between items, or behind one"
        if key.is_begun:
            return self._item(key)
        begun = self._between(key._replace(is_begun=True))
        return self._algebra.concat(self._layout.comma, begun)

    def _stuck(self, key: _Behind) -> Expr:
        """Anything, of which nothing is known: it never ends."""
        algebra = self._algebra
        return algebra.concat(algebra.byte_set(ALL_BYTES), self._behind(key._replace(written=b"")))

    def least(self, key: Hashable) -> Expr:
        assert isinstance(key, _Between) and not self._remembers, "what notes has ways"
        algebra = self._algebra
        algebra.budget.at = self._at
        if self._order.is_complete(key.state) and not key.is_begun:
            return algebra.epsilon
        item, after = self._order.finish(key.state) or next(self._order.steps(key.state))
        lead = algebra.epsilon if key.is_begun else self._layout.comma
        rest = algebra.epsilon
        if not self._order.is_complete(after):
            planned = self._order.as_planned(after)
            rest = self._between(_Between(planned, None, is_begun=False, is_first=False))
        return algebra.sequence([lead, self._layout.value(item.operand), rest])

    # -- items -------------------------------------------------------------------------------

    def _item(self, key: _Between) -> Expr:
        """Any item that may come next, and what may follow it."""
        algebra = self._algebra
        by_next: dict[ItemState, list[Item]] = {}
        for item, after in self._order.steps(key.state):
            by_next.setdefault(after, []).append(item)
        options = []
        for after, items in by_next.items():
            values = algebra.union([self._layout.value(item.operand) for item in items])
            if self._remembers:
                written = None if key.texts is None else b""
                behind = _Behind(after, key.texts, written, is_pending=key.texts is None)
                differing = self.other_than(values, key.texts or ())
                part = algebra.concat(differing, self._behind(behind))
            else:
                part = algebra.concat(values, self.ref(after, None))
            options.append(part)
        return algebra.union(options)

    def _after_item(self, key: _Behind) -> Expr:
        texts = key.texts
        if texts is not None:
            assert key.written, "an item has a text"
            texts = (*texts, key.written)
        return self.ref(key.state, texts)

    # -- what is remembered (see `expr.NotingRules`) -----------------------------------------

    def noted(self, key: Hashable, byte: int) -> Expr:
        assert isinstance(key, _Behind), "only what stands behind an item is open"
        written = None if key.written is None else key.written + bytes([byte])
        return self._behind(key._replace(written=written))

    def loosened(self, key: Hashable) -> Expr:
        if isinstance(key, _Behind):
            return self._behind(key._replace(texts=None, written=None))
        assert isinstance(key, _Between), "a key is a place between items, or behind one"
        return self._between(key if key.is_first else key._replace(texts=None))

    def begins(self, key: Hashable) -> bool:
        return isinstance(key, _Between) and key.texts is not None and key.is_begun

    def read(self, text: bytes) -> Hashable:
        return value_key(parse_json(text.decode()))

    def other_than(self, parts: Expr, texts: tuple[bytes, ...]) -> Expr:
        """Values that equal none of those that were written."""
        if not texts:
            return parts
        if texts not in self._others:
            equal = [self._equal_to(text) for text in texts]
            self._others[texts] = self._algebra.complement(self._algebra.union(equal))
        return self._algebra.intersection([parts, self._others[texts]])

    def unwritten(self, key: Hashable) -> Hashable:
        if isinstance(key, _Behind) and key.written is not None:
            return key._replace(written=b"")
        return key

    def ways(self, key: Hashable) -> Iterator[Way]:
        assert isinstance(key, _Between | _Behind), "a key is a place between items, or behind one"
        self._algebra.budget.at = self._at
        taken = None if key.texts is None else frozenset(map(self._value_of, key.texts))
        is_begun = isinstance(key, _Between) and key.is_begun
        best = self._order.finish(key.state)
        if best is None and not is_begun:
            yield Way(self._algebra.epsilon, (), taken)
            return
        for first in [best] if best else self._order.steps(key.state):
            yield Way(self._algebra.epsilon, self._parts(first, is_begun=is_begun), taken)

    def _parts(self, first: tuple[Item, ItemState], *, is_begun: bool) -> tuple[Part, ...]:
        """The items from one on that complete the array."""
        step: tuple[Item, ItemState] | None = first
        parts: list[Part] = []
        lead = self._algebra.epsilon if is_begun else self._layout.comma
        while step is not None:
            self._algebra.budget.spend()
            item, state = step
            parts.append(Part(lead, self._layout.value(item.operand), self._algebra.epsilon))
            lead, step = self._layout.comma, self._order.finish(state)
        return tuple(parts)

    def _equal_to(self, text: bytes) -> Expr:
        """Every text of the value that a text has."""
        if text not in self._equal:
            self._equal[text] = self._layout.equal(parse_json(text.decode()))
        return self._equal[text]

    def _value_of(self, text: bytes) -> Hashable:
        if text not in self._read:
            self._read[text] = self.read(text)
        return self._read[text]
