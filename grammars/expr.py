"""Byte-level expressions. Owns the terms, one class per operator.

An expression denotes a set of byte strings. It is made by an `Algebra` only, never changes, and is
compared by identity. It must not know of patterns, schemas, tokens or derivatives.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

ALL_BYTES = (1 << 256) - 1
"""A set of bytes is an int: bit b is set when byte b is in it."""

NEAR = 8
"""Upper bounds below this are always taken as they are (see `clamp` and `relax`)."""

Arms = tuple[tuple[int, "Expr"], ...]


class Expr:
    """A set of byte strings.

    `nullable`: the empty string is in it. `plain`: no intersection or complement inside.
    `counts`: a repetition with an upper bound of NEAR or more stands inside.
    `notes`: a reference that remembers what is written (see `noting`) stands inside.
    `is_open`: one of them stands behind a part that is being written.
    `pending`: one of these cannot be passed (see `noting`).
    `serial`: the order of creation, the canonical order of alternatives; unique in the process.
    `arms`, `clamped` and `loose` are memos of `derive`, `clamp` and `noting` (None, or no entry:
    not computed yet).
    """

    __slots__ = (
        *("arms", "clamped", "counts", "is_open", "loose", "notes", "nullable", "pending"),
        *("plain", "serial"),
    )

    def __init__(self, *, nullable: bool, plain: bool = True, counts: bool = False) -> None:
        self.nullable = nullable
        self.plain = plain
        self.counts = counts
        self.serial = -1
        self.arms: Arms | None = None
        self.clamped: Mapping[int, Expr] = NOT_CLAMPED
        self.loose: Expr | None = None
        self.notes = False
        self.is_open = False
        self.pending = False


NOT_CLAMPED: Mapping[int, Expr] = {}
"""That of all that were never clamped: a dict for each of them would keep the collector busy."""


class Empty(Expr):
    """No string at all."""

    __slots__ = ()


class Epsilon(Expr):
    """The empty string alone."""

    __slots__ = ()


class ByteSet(Expr):
    """One byte out of a set (`mask` has bit b set for each byte b of it)."""

    __slots__ = ("mask",)

    def __init__(self, mask: int) -> None:
        super().__init__(nullable=False)
        self.mask = mask


class Literal(Expr):
    """Two to LITERAL_CHUNK (see `algebra`) given bytes, one after another."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(nullable=False)
        self.data = data


class Words(Expr):
    """The suffixes, from `depth` on, of `table[first:last]`: sorted byte strings with one prefix.

    A trie that is never built: its branches are found by bisection when they are asked for.
    """

    __slots__ = ("depth", "first", "last", "table")

    def __init__(self, table: Sequence[bytes], first: int, last: int, depth: int) -> None:
        super().__init__(nullable=len(table[first]) == depth)
        self.table = table
        self.first = first
        self.last = last
        self.depth = depth


class Concat(Expr):
    """A string of `head`, then one of `tail`; `head` is never itself a Concat."""

    __slots__ = ("head", "tail")

    def __init__(self, head: Expr, tail: Expr) -> None:
        super().__init__(
            nullable=head.nullable and tail.nullable,
            plain=head.plain and tail.plain,
            counts=head.counts or tail.counts,
        )
        self.head = head
        self.tail = tail
        self.notes = head.notes or tail.notes
        self.is_open = head.is_open or tail.is_open
        self.pending = head.pending or tail.pending


class Union(Expr):
    """A string of any of the `options`: two or more, none of them a Union, in canonical order."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Expr, ...]) -> None:
        super().__init__(
            nullable=any(o.nullable for o in options),
            plain=all(o.plain for o in options),
            counts=any(o.counts for o in options),
        )
        self.options = options
        self.notes = any(o.notes for o in options)
        self.is_open = any(o.is_open for o in options)
        self.pending = any(o.pending for o in options)


class Repeat(Expr):
    """From `low` to `high` (None: any number of) strings of `body`: a counter, never copies."""

    __slots__ = ("body", "high", "low")

    def __init__(self, body: Expr, low: int, high: int | None) -> None:
        is_far = high is not None and high >= NEAR
        super().__init__(nullable=low == 0, plain=body.plain, counts=is_far or body.counts)
        self.body = body
        self.low = low
        self.high = high
        self.notes = body.notes
        self.is_open = body.is_open
        self.pending = body.pending


class Intersection(Expr):
    """A string that is in all of the `options`."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Expr, ...]) -> None:
        super().__init__(
            nullable=all(o.nullable for o in options),
            plain=False,
            counts=any(o.counts for o in options),
        )
        self.options = options
        self.notes = any(o.notes for o in options)
        self.is_open = any(o.is_open for o in options)
        self.pending = any(o.pending for o in options)


class Complement(Expr):
    """A string over the algebra's alphabet that is not in `body`."""

    __slots__ = ("body",)

    def __init__(self, body: Expr) -> None:
        super().__init__(nullable=not body.nullable, plain=False, counts=body.counts)
        self.body = body


class Rules(Protocol):
    """Expressions that are made when they are needed: recursion, and automata too large to build.

    Whoever makes a reference to `key` vouches for two things: its language is not empty, and
    `unfold(key)` does not come back to `key` before a byte is written (no left recursion).
    """

    def unfold(self, key: Hashable) -> Expr:
        """The expression that `key` stands for."""
        ...

    def least(self, key: Hashable) -> Expr:
        """A part of it with a short string, in which the references lead to no cycle."""
        ...


class Part(NamedTuple):
    """A part that is still needed: `lead`, then one of `others` that differs from all of them
    before (None: nothing must differ), then `trail`.
    """

    lead: Expr
    others: Expr | None
    trail: Expr


class Way(NamedTuple):
    """A way to complete what a noting reference stands for: `lead`, and the parts that are needed.
    `taken`: what they must not be, as `read` gives it; None where it is not known.
    """

    lead: Expr
    parts: tuple[Part, ...]
    taken: frozenset[Hashable] | None


class NotingRules(Rules, Protocol):
    """Rules whose keys remember what is written before them; see `noting`."""

    def noted(self, key: Hashable, byte: int) -> Expr:
        """The reference after `byte` was written before it."""
        ...

    def loosened(self, key: Hashable) -> Expr:
        """The reference without what it remembers."""
        ...

    def begins(self, key: Hashable) -> bool:
        """Whether a part that is remembered begins with the reference."""
        ...

    def unwritten(self, key: Hashable) -> Hashable:
        """The key as it was before anything was noted of the part that is being written."""
        ...

    def ways(self, key: Hashable) -> Iterator[Way]:
        """Ways to complete it, the best first; each by as few parts as it may take."""
        ...

    def read(self, text: bytes) -> Hashable:
        """What a part is compared by."""
        ...

    def other_than(self, parts: Expr, texts: tuple[bytes, ...]) -> Expr:
        """Those of `parts` that are none of the given ones."""
        ...


class Rank(NamedTuple):
    """Of two references of the same rules and `others`, that with higher `counts` (in each place
    at least as high) has all strings of the other.
    """

    others: Hashable
    counts: tuple[int, ...]


class Ref(Expr):
    """The strings of `rules.unfold(key)`, which is asked for no sooner than needed.

    It counts as plain and without counters: what stands inside is looked at when it is unfolded.
    """

    __slots__ = ("key", "noting", "rank", "rules")

    def __init__(
        self,
        rules: Rules,
        key: Hashable,
        *,
        nullable: bool,
        noting: NotingRules | None = None,
        rank: Rank | None = None,
        is_open: bool = False,
        pending: bool = False,
    ) -> None:
        super().__init__(nullable=nullable, plain=not pending)
        self.rules = rules
        self.key = key
        self.noting = noting
        self.rank = rank
        self.notes = noting is not None
        self.is_open = is_open
        self.pending = pending
