"""The items of arrays that count or compare them, as texts. Owns their states as references.

It must not know of keywords.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from grammars.algebra import Algebra
from grammars.budget import At
from grammars.expr import Expr, Rank
from grammars.item_order import Item, ItemOrder, ItemState
from grammars.json_values import JsonValue, parse_json
from grammars.noting import SLACK
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
    """Between two items; `is_begun`: the comma is written, or there is no item before.
    `is_planned`: on a way to complete the array, of which the beginning counts the slack.
    """

    state: ItemState
    texts: Texts
    is_begun: bool
    is_first: bool
    is_planned: bool = False


class _Behind(NamedTuple):
    """Behind an item: the bytes of it so far (None: not known). `is_pending`: it cannot be passed
    (see `noting`).
    """

    state: ItemState
    texts: Texts
    written: bytes | None
    is_pending: bool


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
        self._equal: dict[bytes, Expr] = {}

    def ref(self, state: ItemState, texts: Texts, *, is_first: bool = False) -> Expr:
        """What may follow in a live state."""
        if next(self._order.steps(state), None) is None:
            return self._algebra.epsilon
        texts = texts if self._remembers else None
        return self._between(_Between(state, texts, is_begun=is_first, is_first=is_first))

    def _planned(self, state: ItemState, texts: Texts) -> Expr:
        """What follows on a way to complete the array."""
        if self._order.is_complete(state):
            return self._algebra.epsilon
        state = self._order.as_planned(state)
        key = _Between(state, texts if self._remembers else None, False, False, is_planned=True)
        return self._between(key)

    def _between(self, key: _Between) -> Expr:
        is_inside = key.is_begun and not key.is_first
        nullable = not is_inside and self._order.is_complete(key.state)
        make = self._algebra.noting_ref if self._remembers else self._algebra.ref
        return make(self, key, nullable=nullable, rank=self._rank(key))

    def _rank(self, key: _Between) -> Rank | None:
        """An array that has met more of what is counted can go on as any that has met less."""
        if not key.state.counts or not self._order.is_monotone:
            return None
        others = key._replace(state=key.state._replace(counts=()))
        return Rank(others, key.state.counts)

    def _behind(self, key: _Behind) -> Expr:
        nullable = not key.is_pending and self._order.is_complete(key.state)
        return self._algebra.noting_ref(
            self, key, nullable=nullable, is_open=True, pending=key.is_pending
        )

    # -- expressions of keys (see `expr.Rules`) ----------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        self._algebra.budget.at = self._at
        if isinstance(key, _Behind):
            return self._algebra.empty if key.is_pending else self._after_item(key)
        assert isinstance(key, _Between), "a key is a place between items, or behind one"
        if key.is_begun:
            return self._item(key)
        begun = self._between(key._replace(is_begun=True))
        return self._algebra.concat(self._layout.comma, begun)

    def least(self, key: Hashable) -> Expr:
        algebra = self._algebra
        algebra.budget.at = self._at
        if isinstance(key, _Behind):
            return self._planned(key.state, key.texts)
        assert isinstance(key, _Between), "a key is a place between items, or behind one"
        if self._order.is_complete(key.state) and not (key.is_begun and not key.is_first):
            return algebra.epsilon
        item, after = self._order.finish(key.state) or next(self._order.steps(key.state))
        value = self._layout.value(item.operand)
        lead = algebra.epsilon if key.is_begun else self._layout.comma
        rest = self._planned(after, key.texts)
        return algebra.sequence([lead, self._other_than(value, key.texts), rest])

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
                part = algebra.concat(self._other_than(values, key.texts), self._behind(behind))
            else:
                part = algebra.concat(values, self.ref(after, None))
            options.append(part)
        return algebra.union(options)

    def _other_than(self, values: Expr, texts: Texts) -> Expr:
        """Values that equal none of those that were written."""
        if not texts:
            return values
        if texts not in self._others:
            for text in texts:
                if text not in self._equal:
                    self._equal[text] = self._layout.equal(parse_json(text.decode()))
            equal = self._algebra.union(self._equal[text] for text in texts)
            self._others[texts] = self._algebra.complement(equal)
        return self._algebra.intersection([values, self._others[texts]])

    def _after_item(self, key: _Behind) -> Expr:
        if key.texts is None or not key.written:  # nothing is noted of one that began in a token
            return self.ref(key.state, None)
        return self.ref(key.state, (*key.texts, key.written))

    # -- what is remembered (see `expr.NotingRules`) -----------------------------------------

    def noted(self, key: Hashable, byte: int) -> Expr:
        assert isinstance(key, _Behind), "only what stands behind an item is open"
        written = None if key.written is None else key.written + bytes([byte])
        return self._behind(key._replace(written=written))

    def loosened(self, key: Hashable) -> Expr:
        if isinstance(key, _Behind):
            return self._behind(key._replace(texts=None, written=None))
        assert isinstance(key, _Between), "a key is a place between items, or behind one"
        return self._between(key._replace(texts=None))

    def begins(self, key: Hashable) -> bool:
        return isinstance(key, _Between) and key.texts is not None and key.is_begun

    def slack(self, key: Hashable) -> int:
        assert isinstance(key, _Between | _Behind), "a key is a place between items, or behind one"
        needed = self._num_needed(key.state)
        if isinstance(key, _Behind):
            needed += key.is_pending
        elif key.is_planned:
            needed = 0
        elif key.texts is None:  # an item must follow, other than some that are not known
            needed += key.is_begun and not key.is_first
        elif needed:
            needed -= 1  # the first is other than all that were written
        return needed * (2 * SLACK if key.texts is None else SLACK)

    def _num_needed(self, state: ItemState) -> int:
        """The items that are still needed."""
        return self._order.missing(state)
