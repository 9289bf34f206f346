"""The algebra of expressions: hash-consing and the laws. Owns how expressions are made.

Two expressions of one `Algebra` that were built from the same parts are the same object, so
identity is equality and every memo is keyed by the object. The constructors apply the laws that
keep expressions few and small (flattening, one counter for neighbouring counters, one tail for
alternatives that share it); the one that matters most is that EMPTY is absorbed, so that for the
*plain* operators (all but intersection and complement) "is not EMPTY" means "a string is in it".

It must not know of patterns, schemas, tokens or derivatives.
Source: J. Brzozowski, "Derivatives of regular expressions", 1964; S. Owens, J. Reppy, A. Turon,
"Regular-expression derivatives re-examined", 2009.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import count
from typing import TypeVar

from grammars.budget import At, Budget
from grammars.counters import flatten, join_bounds
from grammars.covering import without_covered
from grammars.expr import (
    ALL_BYTES,
    ByteSet,
    Complement,
    Concat,
    Empty,
    Epsilon,
    Expr,
    Intersection,
    Literal,
    NotingRules,
    Rank,
    Ref,
    Repeat,
    Rules,
    Union,
    Words,
)

LITERAL_CHUNK = 32
"""Longer literals are split: dropping a first byte copies and hashes what remains of the chunk."""

BYTES_PER_EXPRESSION = 500
"""What one takes, with its keys in the memos that know it: about, as measured."""

BYTES_PER_WORD = 120
"""What a word of a table takes beside its text, with the sets that it is sorted from."""

WORDS_PER_STEP = 256
"""Words that are sorted in about the time of making one expression."""

Node = TypeVar("Node", bound=Expr)

_SERIALS = count()
"""No two expressions of any algebra have the same, so that one is named without being held."""


class Algebra:
    """Makes expressions over an alphabet (a set of bytes) and keeps each of them once.

    Bytes outside the alphabet cannot be written, so what needs one is EMPTY from the start.
    Not thread-safe: a grammar owns its algebra and guards it. What a `prelude` knows, it knows from
    the start, as the same objects: no expression of a prelude is made later.
    """

    def __init__(
        self,
        alphabet: int = ALL_BYTES,
        *,
        budget: Budget | None = None,
        prelude: Algebra | None = None,
    ) -> None:
        self.alphabet: int = alphabet
        assert prelude is None or prelude.alphabet == alphabet, "a prelude has the same alphabet"
        self.budget = budget or Budget()
        self._known: dict[tuple[object, ...], Expr] = prelude.known() if prelude else {}
        self._tables: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        self._num_shared = len(self._known)
        self.places: dict[Expr, At] = {}
        """Where the constraint says repetitions: what counts is what runs out of a budget."""
        self.empty = self._one(("empty",), Empty(nullable=False))
        self.epsilon = self._one(("epsilon",), Epsilon(nullable=True))
        self.full = self.repeat(self.byte_set(ALL_BYTES), 0, None)
        """Every string over the alphabet."""

    def known(self) -> dict[tuple[object, ...], Expr]:
        """All expressions, by how they are made."""
        return dict(self._known)

    def _one(self, key: tuple[object, ...], made: Expr) -> Expr:
        return self._known.get(key) or self._keep(key, made)

    def _keep(self, key: tuple[object, ...], made: Node) -> Node:
        self.budget.spend(1, BYTES_PER_EXPRESSION + 16 * len(key))
        made.serial = next(_SERIALS)
        self._known[key] = made
        return made

    def __len__(self) -> int:
        """The expressions that were made by now."""
        return len(self._known) - self._num_shared

    def byte_set(self, mask: int) -> Expr:
        """One byte of `mask`, as far as the alphabet has it."""
        mask &= self.alphabet
        if mask == 0:
            return self.empty
        key = (ByteSet, mask)
        return self._known.get(key) or self._keep(key, ByteSet(mask))

    def literal(self, data: bytes) -> Expr:
        """Exactly `data`."""
        chunks = [data[i : i + LITERAL_CHUNK] for i in range(0, len(data), LITERAL_CHUNK)]
        return self.sequence([self._chunk(chunk) for chunk in chunks])

    def _chunk(self, data: bytes) -> Expr:
        if len(data) == 1:
            return self.byte_set(1 << data[0])
        key = (Literal, data)
        known = self._known.get(key)
        if known is None:
            if not all(self.alphabet >> byte & 1 for byte in data):
                return self.empty
            known = self._keep(key, Literal(data))
        return known

    def words(self, texts: Iterable[bytes]) -> Expr:
        """Any one of `texts`; costs a sort, whatever their number."""
        alphabet = self.alphabet
        kept = set(texts)
        if alphabet != ALL_BYTES:
            foreign = bytes(b for b in range(256) if not alphabet >> b & 1)
            kept = {text for text in kept if len(text.translate(None, foreign)) == len(text)}
        if not kept:
            return self.empty
        self.budget.spend(
            len(kept) // WORDS_PER_STEP, BYTES_PER_WORD * len(kept) + sum(map(len, kept))
        )
        table = tuple(sorted(kept))
        return self.words_slice(self._tables.setdefault(table, table), 0, len(kept), 0)

    def words_slice(self, table: tuple[bytes, ...], first: int, last: int, depth: int) -> Expr:
        """The words of `table[first:last]` without their common first `depth` bytes."""
        if last - first == 1:
            return self.literal(table[first][depth:])
        key = (Words, id(table), first, last, depth)  # the node keeps `table` alive, hence its id
        return self._known.get(key) or self._keep(key, Words(table, first, last, depth))

    def sequence(self, parts: Sequence[Expr]) -> Expr:
        """All of `parts`, one after another."""
        result: Expr = self.epsilon
        for part in reversed(parts):
            result = self.concat(part, result)
        return result

    def concat(self, head: Expr, tail: Expr) -> Expr:
        """A string of `head` followed by one of `tail`."""
        if head is self.empty or tail is self.empty:
            return self.empty
        spine = []
        while isinstance(head, Concat):
            spine.append(head.head)
            head = head.tail
        result = self._prepend(head, tail)
        for part in reversed(spine):
            result = self._prepend(part, result)
        return result

    def _prepend(self, head: Expr, tail: Expr) -> Expr:
        """`concat` for a head that is no Concat."""
        if head is self.epsilon:
            return tail
        if tail is self.epsilon:
            return head
        key = (Concat, head, tail)
        known = self._known.get(key)
        if known is not None:
            return known
        after, rest = (tail.head, tail.tail) if isinstance(tail, Concat) else (tail, self.epsilon)
        joined = self._join(head, after)
        if joined is not None:
            return self._prepend(joined, rest)
        return self._keep(key, Concat(head, tail))

    def _join(self, left: Expr, right: Expr) -> Expr | None:
        """One expression for two neighbours, where there is a simpler one."""
        if not isinstance(left, Repeat) and not isinstance(right, Repeat):
            first = _bytes_of(left)
            second = _bytes_of(right) if first else b""
            is_short = second and len(first + second) <= LITERAL_CHUNK
            return self._chunk(first + second) if is_short else None
        body, low, high = _counted(left)
        other, more, most = _counted(right)
        if body is not other:
            return None
        return self.repeat(body, low + more, None if high is None or most is None else high + most)

    def repeat(self, body: Expr, low: int, high: int | None) -> Expr:
        """`low` to `high` strings of `body`, one after another; `high=None` has no upper bound."""
        assert 0 <= low and (high is None or low <= high), "a repetition's bounds are in order"
        if high == 0 or body is self.epsilon:
            return self.epsilon
        if body is self.empty:
            return self.epsilon if low == 0 else self.empty
        if body.nullable:
            low = 0
        if isinstance(body, Repeat):
            flat = flatten(body, low, high)
            if flat is not None:
                return self.repeat(body.body, *flat)
        if low == 1 == high:
            return body
        key = (Repeat, body, low, high)
        return self._known.get(key) or self._keep(key, Repeat(body, low, high))

    def optional(self, body: Expr) -> Expr:
        """`body` or nothing."""
        return self.repeat(body, 0, 1)

    def union(self, options: Iterable[Expr]) -> Expr:
        """A string of any of `options`."""
        return self._union(list(options), factors=True)

    def _union(self, pending: list[Expr], *, factors: bool) -> Expr:
        """The union; with `factors`, options that begin with one reference are made one.

        Otherwise what may follow would be said once for every way that leads to it, and `if a if a
        b` could nest as deep as it is long. One level at a time: the tails are factored once they
        are heads.
        """
        by_tail: dict[Expr, list[Expr]] = {}
        nullable = False
        num_refs = 0
        while pending:
            option = pending.pop()
            if isinstance(option, Union):
                pending.extend(option.options)
            elif isinstance(option, Repeat) and option.low == 0 and option.high == 1:
                nullable = True
                pending.append(option.body)
            elif option is self.epsilon:
                nullable = True
            elif isinstance(option, Concat):
                by_tail.setdefault(option.tail, []).append(option.head)
                num_refs += isinstance(option.head, Ref)
            elif option is not self.empty:
                by_tail.setdefault(self.epsilon, []).append(option)
                num_refs += isinstance(option, Ref)
        if self.full in by_tail.get(self.epsilon, ()):
            return self.full
        factored = self._factor(by_tail) if factors and num_refs > 1 else []
        heads = (
            self.concat(self._any_head(heads), tail) if tail is not self.epsilon else None
            for tail, heads in by_tail.items()
        )
        rest = [made for made in heads if made is not None]
        rest += without_covered(self._merge_heads(by_tail.get(self.epsilon, [])))
        return self._any(rest + factored, nullable=nullable)

    def _factor(self, by_tail: dict[Expr, list[Expr]]) -> list[Expr]:
        """Takes out the options that begin with one reference, where there are several of them."""
        tails: dict[Expr, dict[Expr, None]] = {}
        for tail, heads in by_tail.items():
            for head in heads:
                if isinstance(head, Ref):
                    tails.setdefault(head, {})[tail] = None
        shared = {head: list(ends) for head, ends in tails.items() if len(ends) > 1}
        for head, ends in shared.items():
            for tail in ends:
                by_tail[tail] = [other for other in by_tail[tail] if other is not head]
                if not by_tail[tail]:
                    del by_tail[tail]
        return [
            self.concat(head, self._union(ends, factors=False)) for head, ends in shared.items()
        ]

    def _any_head(self, heads: list[Expr]) -> Expr:
        """The union of what comes before one common tail."""
        return heads[0] if len(heads) == 1 else self.union(heads)

    def _merge_heads(self, options: list[Expr]) -> list[Expr]:
        """Byte sets become one set; counters of one body become one counter where they meet."""
        mask = 0
        counters: dict[Expr, list[tuple[int, int | None]]] = {}
        rest: list[Expr] = []
        counted = {option.body for option in options if isinstance(option, Repeat)}
        for option in options:
            if isinstance(option, Repeat) or option in counted:
                body, low, high = _counted(option)
                counters.setdefault(body, []).append((low, high))
            elif isinstance(option, ByteSet):
                mask |= option.mask
            else:
                rest.append(option)
        for body, bounds in counters.items():
            rest += [self.repeat(body, low, high) for low, high in join_bounds(bounds)]
        return rest + [self.byte_set(mask)] if mask else rest

    def _any(self, options: list[Expr], *, nullable: bool) -> Expr:
        """The Union of simplified options, and the empty string where `nullable`."""
        unique = sorted(set(options), key=lambda option: option.serial)
        if not unique:
            return self.epsilon if nullable else self.empty
        if len(unique) == 1:
            made = unique[0]
        else:
            key = (Union, *unique)
            made = self._known.get(key) or self._keep(key, Union(tuple(unique)))
        if not nullable or made.nullable:
            return made
        if isinstance(made, Repeat) and made.low == 1:
            return self.repeat(made.body, 0, made.high)
        return self.repeat(made, 0, 1)

    def intersection(self, options: Iterable[Expr]) -> Expr:
        """A string that is in all of `options`. May be empty without being EMPTY."""
        unique: set[Expr] = set()
        pending = list(options)
        mask = self.alphabet
        while pending:
            option = pending.pop()
            if isinstance(option, Intersection):
                pending.extend(option.options)
            elif isinstance(option, ByteSet):
                mask &= option.mask
                unique.add(option)
            elif option is not self.full:
                unique.add(option)
        if not unique:
            return self.full
        if self.empty in unique:
            return self.empty
        if self.epsilon in unique:
            return self.epsilon if all(option.nullable for option in unique) else self.empty
        if any(isinstance(option, ByteSet) for option in unique):
            unique = {option for option in unique if not isinstance(option, ByteSet)}
            unique.add(self.byte_set(mask))
            if self.empty in unique:
                return self.empty
        if len(unique) == 1:
            return unique.pop()
        ordered = sorted(unique, key=lambda option: option.serial)
        key = (Intersection, *ordered)
        return self._known.get(key) or self._keep(key, Intersection(tuple(ordered)))

    def ref(
        self, rules: Rules, key: Hashable, *, nullable: bool = False, rank: Rank | None = None
    ) -> Expr:
        """What `rules` say of `key`; see `expr.Rules` for what the caller vouches for."""
        known = (Ref, rules, key)
        found = self._known.get(known)
        return found or self._keep(known, Ref(rules, key, nullable=nullable, rank=rank))

    def noting_ref(
        self,
        rules: NotingRules,
        key: Hashable,
        *,
        nullable: bool = False,
        is_open: bool = False,
        pending: bool = False,
        rank: Rank | None = None,
    ) -> Expr:
        """The same of a key that remembers what is written: of the part that is being written
        before it (`is_open`), of earlier ones. A `pending` one cannot be passed.
        """
        known = (Ref, rules, key)
        found = self._known.get(known)
        if found is not None:
            return found
        made = Ref(
            rules,
            key,
            nullable=nullable,
            noting=rules,
            rank=rank,
            is_open=is_open,
            pending=pending,
        )
        return self._keep(known, made)

    def complement(self, body: Expr) -> Expr:
        """A string over the alphabet that is not in `body`."""
        if isinstance(body, Complement):
            return body.body
        if body is self.empty:
            return self.full
        if body is self.full:
            return self.empty
        key = (Complement, body)
        return self._known.get(key) or self._keep(key, Complement(body))


def literal_bytes(node: Expr) -> bytes | None:
    """The only string of a literal of any length; None for anything else."""
    found = b""
    while isinstance(node, Concat):
        data = _bytes_of(node.head)
        if not data:
            return None
        found, node = found + data, node.tail
    data = _bytes_of(node)
    return found + data if data else None


def _bytes_of(node: Expr) -> bytes:
    """The bytes of a literal (or of a set of one byte); b"" for anything else."""
    if isinstance(node, Literal):
        return node.data
    if isinstance(node, ByteSet) and node.mask & (node.mask - 1) == 0:
        return bytes([node.mask.bit_length() - 1])
    return b""


def _counted(node: Expr) -> tuple[Expr, int, int | None]:
    """`node` as a repetition: its body and bounds."""
    if isinstance(node, Repeat):
        return node.body, node.low, node.high
    return node, 1, 1
