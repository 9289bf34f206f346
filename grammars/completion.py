"""The cheapest way to finish. Owns witnesses, their spelling in tokens, and whether a state is
alive.

A *witness* of an expression is one short string of it: chosen by structure for the plain operators,
found by breadth-first search over derivatives where an intersection or a complement stands (which
is how their emptiness is decided). A *spelling* is a witness split into the fewest tokens: a linked
list over its bytes in which every cell knows the best token that starts there, so that a byte put
in front costs one walk down the trie, and tails are shared by all that end alike.

The cost is an upper bound of the true minimum: the cheapest of the witnesses looked at. The matcher
carries the spelling's tokens as its plan, and that makes the bound a guarantee.
It must not know of masks, matchers or front ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from grammars.algebra import Algebra
from grammars.derive import arms
from grammars.expr import (
    ByteSet,
    Complement,
    Concat,
    Empty,
    Epsilon,
    Expr,
    Intersection,
    Literal,
    Ref,
    Repeat,
    Union,
    Words,
)
from grammars.few_texts import few_texts
from grammars.noting import SLACK, before_pending, has_room, loosened
from grammars.relax import relax
from grammars.vocabulary import Vocabulary

UNREACHABLE = 1 << 30
"""The cost where no way to finish is known."""

MANY_TEXTS = 64
"""Texts of a part that has room, and more: of fewer, all might have been written already."""

TRIED_BYTES = 4
"""Bytes of a set tried as its witness: a few, since every one costs a walk down the trie."""

TRIED_WORDS = 64
"""Words of a table tried as its witness: the shortest."""


BYTES_PER_CELL = 120
"""What a byte of a spelling takes."""

BYTES_PER_STEP = 16
"""Bytes that are spelled in about the time of making one expression."""


class Spelling:
    """A string, cell by cell, and the fewest tokens that write it from each cell on.

    `cost` tokens; the first of them is `token`, after which the string goes on at `after`.
    `is_fenced`: no token reaches over the cell's beginning. Not `is_sure`: the string may have to
    become another (see `noting`), and the cost is what that may take.
    """

    __slots__ = ("after", "byte", "cost", "is_fenced", "is_sure", "length", "rest", "token")

    def __init__(self, byte: int, rest: Spelling | None) -> None:
        self.byte = byte
        self.rest = rest
        self.cost = 0
        self.token = -1
        self.after: Spelling | None = None
        self.is_fenced = False
        self.length: int
        self.is_sure: bool
        if rest is None:
            self.length, self.is_sure = 0, True
        else:
            self.length, self.is_sure = rest.length + 1, rest.is_sure

    def tokens(self) -> Iterator[int]:
        """The ids of the fewest tokens that write it."""
        assert self.cost < UNREACHABLE, "only what tokens can write has a plan"
        cell = self
        while cell.after is not None:
            yield cell.token
            cell = cell.after


Choosing = Generator[tuple[Expr, Spelling], Spelling, Spelling]
"""Asks for the witnesses of parts, each in front of a tail, and gives one of the whole."""


class Completions:
    """Spellings of witnesses for the expressions of one algebra, in one vocabulary. Memoised."""

    def __init__(self, algebra: Algebra, vocabulary: Vocabulary) -> None:
        self.algebra = algebra
        self.vocabulary = vocabulary
        self._end = Spelling(-1, None)
        self._nowhere = Spelling(-1, None)
        self._nowhere.cost = UNREACHABLE
        self._of: dict[Expr, Spelling] = {algebra.empty: self._nowhere}
        self._before: dict[tuple[Expr, Spelling], Spelling] = {}
        self._rounds: dict[tuple[Expr, Spelling], list[Spelling]] = {}
        self._found: dict[Expr, bytes | None] = {algebra.empty: None}
        self._alive: dict[Expr, bool] = {}
        self._roomy: dict[Expr, bool] = {}

    # -- what the rest of the package asks -----------------------------------------------------

    def cost(self, node: Expr) -> int:
        """The tokens of the cheapest string of `node` that is known; 0 when it may end here."""
        return 0 if node.nullable else self.spelling(node).cost

    def is_alive(self, node: Expr) -> bool:
        """Whether `node` has a string at all."""
        if node.plain:
            return node is not self.algebra.empty
        if node.pending and not isinstance(node, Union) and not self._has_room(node):
            return False
        spine: list[Concat] = []
        while isinstance(node, Concat) and node not in self._alive:
            spine.append(node)
            node = node.tail
        alive = self._alive[node] if node in self._alive else self._is_alive(node)
        for cell in reversed(spine):
            is_head = isinstance(cell.head, Ref) or self.is_alive(cell.head)
            alive = self._alive[cell] = alive and is_head
        return alive

    def _has_room(self, node: Expr) -> bool:
        """Whether what cannot be passed may still be preceded by very many texts."""
        if node not in self._roomy:
            part = before_pending(self.algebra, node)
            few = None if part is None else few_texts(self.algebra, part, MANY_TEXTS)
            self._roomy[node] = has_room(node) or (part is not None and few is None)
        return self._roomy[node]

    def _is_alive(self, node: Expr) -> bool:
        if node.plain:
            return node is not self.algebra.empty
        if isinstance(node, Union):
            return any(self.is_alive(option) for option in node.options)
        if isinstance(node, Repeat):
            return node.nullable or self.is_alive(node.body)
        if node.pending:
            return True  # with room before what cannot be passed, or else dead: see `is_alive`
        return self.witness(node) is not None

    def spell(self, data: bytes) -> Spelling:
        """The spelling of given bytes."""
        return self._bytes(data, self._end)

    def spelling(self, node: Expr) -> Spelling:
        """The spelling of the witness of `node` (cost UNREACHABLE when there is none)."""
        if node.nullable:
            return self._end
        spine: list[Expr] = []
        rest: Expr = node
        while isinstance(rest, Concat) and rest not in self._of:
            spine.append(rest)
            rest = rest.tail
        if rest not in self._of:
            self._of[rest] = self._prepend(rest, self._end)
        spelled = self._of[rest]
        for cell in reversed(spine):
            assert isinstance(cell, Concat), "the spine is made of concatenations"
            spelled = self._of[cell] = self._prepend(cell.head, spelled)
        return spelled

    # -- spelling ------------------------------------------------------------------------------

    def _prepend(self, node: Expr, tail: Spelling) -> Spelling:
        """The witness of `node` in front of `tail`.

        What it takes is asked for by generators on a stack of our own: a chain of references is as
        long as an array has items, a nest of them as deep as a schema.
        """
        found = self._known(node, tail)
        if found is not None:
            return found
        stack = [(node, tail, self._choose(node, tail))]
        while stack:
            node, tail, choosing = stack[-1]
            try:
                asked = next(choosing) if found is None else choosing.send(found)
            except StopIteration as ended:
                stack.pop()
                found = self._before[node, tail] = ended.value
                continue
            found = self._known(*asked)
            if found is None:
                stack.append((*asked, self._choose(*asked)))
        assert found is not None, "whatever was asked is answered"
        return found

    def _known(self, node: Expr, tail: Spelling) -> Spelling | None:
        """The same, where nothing else is to be asked for; None where there is."""
        if node.nullable or tail.cost >= UNREACHABLE:
            return tail
        found = self._before.get((node, tail))
        if found is None:
            self.algebra.budget.spend(1, 4 * BYTES_PER_CELL)
        return found

    def _choose(self, node: Expr, tail: Spelling) -> Choosing:
        """The witness in front of `tail`; yields the pairs of which it needs the same."""
        if isinstance(node, Literal):  # kept, too: what comes before it is kept by its spelling
            return self._bytes(node.data, tail)
        if isinstance(node, ByteSet):
            return self._cheapest([self._byte(byte, tail) for byte in self._likely(node.mask)])
        if isinstance(node, Concat):
            return (yield from self._in_front(node, tail))
        if isinstance(node, Union):
            return (yield from self._any_of(node, tail))
        if isinstance(node, Repeat):
            return (yield from self._repeated(node, tail))
        if isinstance(node, Words):
            words = node.table[node.first : node.last]
            if len(words) > TRIED_WORDS:
                words = sorted(words, key=len)[:TRIED_WORDS]
            return self._cheapest([self._bytes(word[node.depth :], tail) for word in words])
        if isinstance(node, Ref):
            if node.noting is not None and (slack := node.noting.slack(node.key)):
                tail = self._fenced(tail, slack)
            return (yield node.rules.least(node.key), tail)
        if isinstance(node, Empty | Epsilon):
            return tail if node.nullable else self._nowhere
        if node.pending:  # nothing passes it, but all that is excluded leaves room
            assert isinstance(node, Intersection), "any other is plain, or made of others"
            kept = next(part for part in node.options if not isinstance(part, Complement))
            return self._fenced((yield kept, tail), SLACK)
        found = self.witness(node)
        return self._nowhere if found is None else self._bytes(found, tail)

    def _any_of(self, node: Union, tail: Spelling) -> Choosing:
        """The cheapest of some alternatives. Of the spellings of a character, single bytes come
        first: the others are many, and hardly ever cheaper.
        """
        for option in node.options:
            if isinstance(option, ByteSet) and option.mask.bit_count() > TRIED_BYTES:
                found = yield option, tail
                if found.cost <= tail.cost + 1:
                    return found
        cheapest = self._nowhere
        for option in node.options:
            cheapest = self._cheapest([cheapest, (yield option, tail)])
        return cheapest

    def _in_front(self, node: Expr, tail: Spelling) -> Choosing:
        """The witnesses of a chain, from its end on; a loop, since a literal may be a long one."""
        heads: list[Expr] = []
        while isinstance(node, Concat):
            heads.append(node.head)
            node = node.tail
        self.algebra.budget.spend(len(heads) // BYTES_PER_STEP)
        for part in reversed([*heads, node]):
            tail = yield part, tail
        return tail

    def _repeated(self, node: Repeat, tail: Spelling) -> Choosing:
        """`low` rounds of the body, sharing the rounds of every other count before that tail."""
        rounds = self._rounds.setdefault((node.body, tail), [tail])
        at = self.algebra.places.get(node)
        while len(rounds) <= node.low:
            self.algebra.budget.at = at or self.algebra.budget.at
            self.algebra.budget.spend()
            before = yield node.body, rounds[-1]
            rounds.append(before)
        return rounds[node.low]

    def _cheapest(self, options: list[Spelling]) -> Spelling:
        return min(options, key=lambda s: (s.cost, s.length), default=self._nowhere)

    def _bytes(self, data: bytes, tail: Spelling) -> Spelling:
        self.algebra.budget.spend(len(data) // BYTES_PER_STEP, BYTES_PER_CELL * len(data))
        for byte in reversed(data):
            tail = self._byte(byte, tail)
        return tail

    def _byte(self, byte: int, tail: Spelling) -> Spelling:
        """One byte in front: the best token that starts with it, and what it leaves."""
        cell = Spelling(byte, tail)
        best = UNREACHABLE - 1
        child, token_at = self.vocabulary.child, self.vocabulary.token_at
        node, after = child.get(byte), tail
        while node is not None:
            if after.cost < best and token_at[node] >= 0:
                best, cell.token, cell.after = after.cost, token_at[node], after
            if after.rest is None or after.is_fenced:
                break
            node, after = child.get(node * 256 + after.byte), after.rest
        cell.cost = best + 1
        return cell

    def _fenced(self, tail: Spelling, slack: int) -> Spelling:
        """The same string, at a cost that is higher by `slack`, and so whatever comes before."""
        if tail.cost >= UNREACHABLE:
            return tail
        cell = Spelling(tail.byte, tail.rest)
        cell.length, cell.token, cell.after = tail.length, tail.token, tail.after
        cell.cost = tail.cost + slack
        cell.is_fenced, cell.is_sure = True, False
        return cell

    def _likely(self, mask: int) -> list[int]:
        """A few bytes of a set, those that a token of their own can write first."""
        single = mask & self.vocabulary.single_bytes
        chosen = single if single else mask
        letters = chosen & _COMMON
        return _some_bytes(letters or chosen, TRIED_BYTES)

    def cost_of_run(self, begun: Expr, body: Expr, low: int, tail: Spelling) -> int:
        """The cost of `begun . body{low,}` and `tail`, which need not be made for it."""
        if tail.cost < UNREACHABLE and low:
            rounds = self._rounds.setdefault((body, tail), [tail])
            while len(rounds) <= low:
                self.algebra.budget.spend()
                rounds.append(self._prepend(body, rounds[-1]))
            tail = rounds[low]
        return self._prepend(begun, tail).cost

    # -- searching -----------------------------------------------------------------------------

    def witness(self, node: Expr) -> bytes | None:
        """A string of `node`, or None when there is none; for those that are not plain.

        Breadth first over derivatives; every expression on the way learns its own answer.
        """
        node = loosened(self.algebra, node)  # what a search passes is not written
        if node in self._found:
            return self._found[node]
        relaxed, room = relax(self.algebra, node)
        if relaxed is not node:
            found = self._text(relaxed)
            if found is None or len(found) <= room:
                self._found[node] = found
                return found
        return self._search(node)

    def stretch(self, node: Expr) -> int:
        """The bytes of the longest witness inside that was found without far bounds.

        UNREACHABLE where one was not, or stands where it is not known how it was.
        """
        longest = 0
        while isinstance(node, Concat) and not node.plain:
            longest = max(longest, self._stretch_of(node.head))
            node = node.tail
        return max(longest, self._stretch_of(node))

    def _stretch_of(self, node: Expr) -> int:
        if node.plain or isinstance(node, Ref):
            return 0
        relaxed, room = relax(self.algebra, node)
        found = self._text(relaxed) if isinstance(node, Intersection) else None
        return len(found) if found is not None and len(found) <= room else UNREACHABLE

    def _text(self, node: Expr) -> bytes | None:
        """A string of `node`, whether it is plain or not; None when there is none."""
        if not node.plain:
            return self.witness(node)
        spelled = self.spelling(node)
        return _bytes(spelled) if spelled.cost < UNREACHABLE else None

    def _search(self, node: Expr) -> bytes | None:
        """The witness by breadth-first search, for an expression of which nothing is known."""
        came_from: dict[Expr, tuple[Expr, int] | None] = {node: None}
        level = [node]
        while level:
            following: list[Expr] = []
            for here in level:
                ending = self._ending(here)
                if ending is not None:
                    return self._record(here, ending, came_from)
                for mask, rest in arms(self.algebra, here):
                    if rest not in came_from and self._found.get(rest, b"") is not None:
                        self.algebra.budget.spend()
                        came_from[rest] = (here, self._likely(mask)[0])
                        following.append(rest)
            level = following
        self._found.update(dict.fromkeys(came_from))
        return None

    def _ending(self, node: Expr) -> bytes | None:
        """The rest of a witness, where no search is needed to know it."""
        if node.nullable:
            return b""
        if node in self._found:
            return self._found[node]
        if node.plain and self.spelling(node).cost < UNREACHABLE:
            return _bytes(self.spelling(node))
        return None

    def _record(
        self, node: Expr, ending: bytes, came_from: dict[Expr, tuple[Expr, int] | None]
    ) -> bytes:
        """Notes the witness of every expression on the way back to where the search began.

        Not where something counts: there the witness without far bounds comes first (`witness`),
        and it must be the same whichever was asked for before.
        """
        back = came_from[node]
        while back is not None:
            if not node.counts:
                self._found.setdefault(node, ending)
            node, byte = back
            ending = bytes([byte]) + ending
            back = came_from[node]
        self._found.setdefault(node, ending)
        return ending


_COMMON = sum(1 << byte for byte in b"abcdefghijklmnopqrstuvwxyz0123456789")


def _some_bytes(mask: int, most: int) -> list[int]:
    """The lowest bytes of a set, up to `most`."""
    found: list[int] = []
    while mask and len(found) < most:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _bytes(spelling: Spelling) -> bytes:
    """The string that a spelling writes."""
    found = bytearray()
    cell = spelling
    while cell.rest is not None:
        found.append(cell.byte)
        cell = cell.rest
    return bytes(found)
