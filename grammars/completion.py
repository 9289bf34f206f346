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

from collections import Counter
from collections.abc import Hashable, Iterator

from grammars.algebra import Algebra
from grammars.derive import arms, step
from grammars.expr import (
    ByteSet,
    Complement,
    Concat,
    Empty,
    Epsilon,
    Expr,
    Intersection,
    Literal,
    Part,
    Ref,
    Repeat,
    Union,
    Way,
    Words,
)
from grammars.noting import SLACK, begun, has_room, loosened
from grammars.relax import relax
from grammars.spares import Comparison, Spare, Spares
from grammars.vocabulary import Vocabulary

UNREACHABLE = 1 << 30
"""The cost where no way to finish is known."""

TRIED_BYTES = 4
"""Bytes of a set tried as its witness: a few, since every one costs a walk down the trie."""

TRIED_WORDS = 64
"""Words of a table tried as its witness: the shortest."""


MOST_ALIKE = 24
"""Places of a search that differ in what was written alone, of which one leads to a text if any
does: more than equal texts that a short text has."""

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
        self.length: int = rest.length + 1 if rest is not None else 0
        self.cost = 0
        self.token = -1
        self.after: Spelling | None = None
        self.is_fenced = False
        self.is_sure: bool = rest is None or rest.is_sure

    def tokens(self) -> Iterator[int]:
        """The ids of the fewest tokens that write it."""
        assert self.cost < UNREACHABLE, "only what tokens can write has a plan"
        cell = self
        while cell.after is not None:
            yield cell.token
            cell = cell.after


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
        self._going_on: dict[tuple[object, Hashable], bool] = {}
        self._completed_from: dict[tuple[object, Hashable, bool, Spelling], Spelling] = {}
        self._excess: dict[Expr, int] = {}
        self._spares: dict[tuple[object, Expr], Spares] = {}

    # -- what the rest of the package asks -----------------------------------------------------

    def cost(self, node: Expr) -> int:
        """The tokens of the cheapest string of `node` that is known; 0 when it may end here."""
        return 0 if node.nullable else self.spelling(node).cost

    def is_alive(self, node: Expr) -> bool:
        """Whether `node` has a string at all. Of a state without its notes: whether it has one
        whatever they are (see `noting`).
        """
        if node.plain and not node.notes:
            return node is not self.algebra.empty
        if node.pending and not isinstance(node, Union) and not self._has_room(node):
            return False
        spine: list[Concat] = []
        while isinstance(node, Concat) and node not in self._alive:
            spine.append(node)
            node = node.tail
        if node not in self._alive:
            self._alive[node] = self._is_alive(node)
        alive = self._alive[node]
        for cell in reversed(spine):
            alive = self._alive[cell] = alive and self.is_alive(cell.head)
        return alive

    def _has_room(self, node: Expr) -> bool:
        """Whether what cannot be passed may still be preceded by very many texts."""
        if node not in self._roomy:
            self._roomy[node] = has_room(node)
        return self._roomy[node]

    def _is_alive(self, node: Expr) -> bool:
        if isinstance(node, Union):
            return any(self.is_alive(option) for option in node.options)
        if isinstance(node, Repeat):
            return node.nullable or self.is_alive(node.body)
        if node.pending:
            return True  # with room before what cannot be passed, or else dead: see `is_alive`
        if isinstance(node, Ref) and node.noting is not None:
            return self._can_go_on(node)
        if (
            node.notes
            and isinstance(node, Intersection)
            and loosened(self.algebra, node) is not node
        ):
            search = Spares(self.algebra, node, _ANY_TEXT, self._length, most_alike=MOST_ALIKE)
            return search.get(0) is not None
        if node.plain:
            return node is not self.algebra.empty
        return self.witness(node) is not None

    def spell(self, data: bytes) -> Spelling:
        """The spelling of given bytes."""
        return self._bytes(data, self._end)

    def in_front(self, data: bytes, plan: Spelling) -> Spelling:
        """The spelling of given bytes in front of a plan."""
        return self._bytes(data, plan) if plan.cost < UNREACHABLE else plan

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

    def settled(self, node: Expr) -> Spelling:
        """The spelling of a string of `node` that is written as it is, whatever must differ; that
        of `spelling` where none is found.
        """
        plain = self.spelling(node)
        is_text = plain.is_sure and plain.cost < UNREACHABLE
        found = _bytes(plain) if is_text else self._sure_text(node)
        whole = self._nowhere if found is None else self.spell(found)
        return whole if whole.cost < UNREACHABLE else plain

    def _sure_text(self, node: Expr) -> bytes | None:
        """The text of the spelling up to where one is sure, and that; where it leads nowhere, that
        up to a place from where another comes further.
        """
        before = b""
        while (text := self._text_of(node)) is not None:
            passed = self._passed(node, text)
            end = len(passed)
            if end and self._is_sure(passed[-1]):
                return before + text[:end] + _bytes(self.spelling(passed[-1]))
            for end, after in enumerate(passed, 1):
                other = self._text_of(after)
                if other is None or other == text[end:]:
                    continue
                further = self._passed(after, other)
                if end + len(further) > len(passed) or (further and self._is_sure(further[-1])):
                    before, node = before + text[:end], after
                    break
            else:
                return None
        return None

    def _is_sure(self, node: Expr) -> bool:
        found = self.spelling(node)
        return found.is_sure and found.cost < UNREACHABLE

    def _text_of(self, node: Expr) -> bytes | None:
        found = self.spelling(node)
        return _bytes(found) if found.cost < UNREACHABLE else None

    def _passed(self, node: Expr, text: bytes) -> list[Expr]:
        """The states along a text, up to one of which the spelling is sure, or to where it can no
        longer be completed.
        """
        found: list[Expr] = []
        for byte in text:
            self.algebra.budget.spend()
            node = step(self.algebra, node, byte)
            if not self.is_alive(node):
                break
            found.append(node)
            if self._is_sure(node):
                break
        return found

    def excess(self, node: Expr) -> int:
        """Tokens by which finishing may cost more than it seems without the notes, as long as no
        other part begins.
        """
        if not node.notes:
            return 0
        if node not in self._excess:
            self._excess[node] = self._excess_of(begun(self.algebra, node), self.algebra.epsilon)
        return self._excess[node]

    def _excess_of(self, node: Expr, tail: Expr) -> int:
        while isinstance(node, Concat) and not node.head.notes:
            node = node.tail
        if not node.notes:
            return self._excess_of(tail, self.algebra.epsilon) if tail.notes else 0
        head, rest = node, tail
        if isinstance(node, Concat):
            head, rest = node.head, self.algebra.concat(node.tail, tail)
        if isinstance(head, Ref):
            whole = self.algebra.concat(head, rest)
            exact = self.spelling(whole).cost
            return max(0, exact - self.spelling(loosened(self.algebra, whole)).cost)
        if isinstance(head, Repeat):
            return self._excess_of(head.body, rest)
        assert isinstance(head, Union | Intersection), "what notes is made of others"
        return max(self._excess_of(option, rest) for option in head.options)

    # -- spelling ------------------------------------------------------------------------------

    def _prepend(self, node: Expr, tail: Spelling) -> Spelling:
        """The witness of `node` in front of `tail`."""
        if node.nullable or tail.cost >= UNREACHABLE:
            return tail
        if isinstance(node, Literal):
            return self._bytes(node.data, tail)
        key = (node, tail)
        if key not in self._before:
            self.algebra.budget.spend(1, 4 * BYTES_PER_CELL)
            self._before[key] = self._choose(node, tail)
        return self._before[key]

    def _choose(self, node: Expr, tail: Spelling) -> Spelling:
        if isinstance(node, ByteSet):
            return self._cheapest([self._byte(byte, tail) for byte in self._likely(node.mask)])
        if isinstance(node, Concat):
            return self._in_front(node, tail)
        if isinstance(node, Union):
            return self._cheapest([self._prepend(option, tail) for option in node.options])
        if isinstance(node, Repeat):
            return self._repeated(node, tail)
        if isinstance(node, Words):
            words = node.table[node.first : node.last]
            if len(words) > TRIED_WORDS:
                words = sorted(words, key=len)[:TRIED_WORDS]
            return self._cheapest([self._bytes(word[node.depth :], tail) for word in words])
        if isinstance(node, Ref):
            if node.noting is not None:
                return self._ahead(node, tail)
            return self._prepend(node.rules.least(node.key), tail)
        if isinstance(node, Empty | Epsilon):
            return tail if node.nullable else self._nowhere
        if (
            isinstance(node, Intersection) and node.notes
        ):  # no search, since what it passes is not written; what is excluded is little
            kept = next(part for part in node.options if not isinstance(part, Complement))
            return self._fenced(self._prepend(kept, tail), SLACK, is_sure=False)
        found = self.witness(node)
        return self._nowhere if found is None else self._bytes(found, tail)

    # -- what must differ (see `noting`) -------------------------------------------------------

    def _can_go_on(self, node: Ref) -> bool:
        """Whether there are texts for the parts that a noting reference needs."""
        assert node.noting is not None, "only what notes has ways"
        key = (node.noting, node.noting.unwritten(node.key))
        if key not in self._going_on:
            ways = node.noting.ways(node.key)
            self._going_on[key] = any(
                way.taken is None or self._chosen(node, way) is not None for way in ways
            )
        return self._going_on[key]

    def _ahead(self, node: Ref, tail: Spelling) -> Spelling:
        """What completes the parts of a noting reference; the same for all bytes of one part."""
        assert node.noting is not None, "only what notes has ways"
        key = (node.noting, node.noting.unwritten(node.key), node.pending, tail)
        if key not in self._completed_from:
            self._completed_from[key] = self._completed(node, tail)
        return self._completed_from[key]

    def _completed(self, node: Ref, tail: Spelling) -> Spelling:
        """What completes the parts of a noting reference.

        Known parts get texts of their own. Behind a part that is being written these may turn out
        to be taken: then others come in their place, so they are spelled one by one, and the cost
        is that of the dearest. Without notes, any texts stand for those.
        """
        assert node.noting is not None, "only what notes has ways"
        is_loose = False
        for way in node.noting.ways(node.key):
            is_loose = way.taken is None
            if is_loose:
                texts: list[Expr] | None = [p.others for p in way.parts if p.others is not None]
            else:
                texts = self._chosen(node, way)
            if texts is not None:
                break
        else:
            return self._nowhere
        if is_loose:
            slack = SLACK if node.pending else 0
        else:
            slack = self._spare_cost(node, way) if node.is_open else 0
        if node.pending or (node.is_open and texts):
            tail = self._fenced(tail, slack, is_sure=False)
        return self._prepend(way.lead, self._lined_up(way, list(texts), tail))

    def _lined_up(self, way: Way, texts: list[Expr], tail: Spelling) -> Spelling:
        """The parts of a way; those that must differ are `texts`. No token joins one of these with
        others, so another in its place costs as much more as it is dearer.
        """
        for part in reversed(way.parts):
            self.algebra.budget.spend()
            if part.others is None:
                tail = self._prepend(part.lead, tail)
                continue
            tail = self._prepend(part.trail, self._fenced(tail, 0))
            tail = self._fenced(self._prepend(part.lead, self._prepend(texts.pop(), tail)), 0)
        return tail

    def _chosen(self, node: Ref, way: Way) -> list[Expr] | None:
        """Different texts for the parts of a way that need some; None where there are not enough.

        The first that may be taken come last: so, when the next part is known, the rest is as it
        was.
        """
        found = self._different(node, way)
        return None if found is None else [self.algebra.literal(spare.text) for spare in found]

    def _different(self, node: Ref, way: Way) -> list[Spare] | None:
        kinds = [part.others for part in way.parts if part.others is not None]
        assert way.taken is not None, "what is taken is known"
        taken = set(way.taken)
        chosen: dict[Expr, list[Spare]] = {}
        for others, count in Counter(kinds).items():
            spares = self._spares_of(others, node)
            chosen[others] = self._free(spares, taken, count)
            if len(chosen[others]) < count:
                return None
            taken.update(spare.value for spare in chosen[others])
        return [chosen[others].pop() for others in kinds]

    def _free(self, spares: Spares, taken: set[Hashable], count: int) -> list[Spare]:
        """The first of these texts that are not taken, up to `count` of them."""
        found: list[Spare] = []
        index = 0
        while len(found) < count and (spare := spares.get(index)) is not None:
            if spare.value not in taken:
                found.append(spare)
            index += 1
        self.algebra.budget.spend(index // BYTES_PER_STEP)
        return found

    def _spare_cost(self, node: Ref, way: Way) -> int:
        """How much dearer the way may become when the part before it takes one of its texts."""
        found = self._different(node, way)
        if not found:
            return 0
        assert way.taken is not None, "what is taken is known"
        taken = set(way.taken) | {spare.value for spare in found}
        parts = list(dict.fromkeys(part for part in way.parts if part.others is not None))
        needed = [part for part in way.parts if part.others is not None]
        pairs = zip(needed, found, strict=True)
        least = min(self._piece(part, spare.text).cost for part, spare in pairs)
        dearest = least
        for part in parts:
            assert part.others is not None, "only those that must differ have spares"
            for spare in self._free(self._spares_of(part.others, node), taken, 1):
                dearest = max(dearest, self._piece(part, spare.text).cost)
        return dearest - least

    def _piece(self, part: Part, text: bytes) -> Spelling:
        """A part with a text of its own, by itself."""
        tail = self._prepend(part.trail, self._end)
        return self._prepend(part.lead, self._prepend(self.algebra.literal(text), tail))

    def _spares_of(self, others: Expr, node: Ref) -> Spares:
        """Texts of an expression that differ as `node` compares them."""
        assert node.noting is not None, "only what notes compares"
        key = (node.noting, others)
        if key not in self._spares:
            comparison = Comparison(node.noting.read, node.noting.other_than)
            self._spares[key] = Spares(self.algebra, others, comparison, self._length)
        return self._spares[key]

    def _length(self, node: Expr) -> int | None:
        """The bytes of a short string of `node`; None where it has none."""
        found = self.spelling(node)
        return found.length if found.cost < UNREACHABLE else None

    # -- chains ----------------------------------------------------------------------------------

    def _in_front(self, node: Expr, tail: Spelling) -> Spelling:
        """The witnesses of a chain, from its end on; a loop, since a literal may be a long one."""
        heads: list[Expr] = []
        while isinstance(node, Concat):
            heads.append(node.head)
            node = node.tail
        self.algebra.budget.spend(len(heads) // BYTES_PER_STEP)
        for part in reversed([*heads, node]):
            tail = self._prepend(part, tail)
        return tail

    def _repeated(self, node: Repeat, tail: Spelling) -> Spelling:
        """`low` rounds of the body, sharing the rounds of every other count before that tail."""
        rounds = self._rounds.setdefault((node.body, tail), [tail])
        while len(rounds) <= node.low:
            self.algebra.budget.spend()
            rounds.append(self._prepend(node.body, rounds[-1]))
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
        cell.cost = UNREACHABLE
        child, token_at = self.vocabulary.child, self.vocabulary.token_at
        node = child.get(byte)
        after: Spelling | None = tail
        while node is not None and after is not None:
            if token_at[node] >= 0 and after.cost + 1 < cell.cost:
                cell.cost, cell.token, cell.after = after.cost + 1, token_at[node], after
            goes_on = after.rest is not None and not after.is_fenced
            node = child.get(node * 256 + after.byte) if goes_on else None
            after = after.rest
        return cell

    def _fenced(self, tail: Spelling, slack: int, *, is_sure: bool = True) -> Spelling:
        """The same string, at a cost that is higher by `slack`, and so whatever comes before."""
        if tail.cost >= UNREACHABLE:
            return tail
        cell = Spelling(tail.byte, tail.rest)
        cell.length, cell.token, cell.after = tail.length, tail.token, tail.after
        cell.cost = tail.cost + slack
        cell.is_fenced, cell.is_sure = True, tail.is_sure and is_sure
        return cell

    def _likely(self, mask: int) -> list[int]:
        """A few bytes of a set, those that a token of their own can write first."""
        single = mask & self.vocabulary.single_bytes
        chosen = single if single else mask
        letters = chosen & _COMMON
        return _some_bytes(letters or chosen, TRIED_BYTES)

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
        is_searched = isinstance(node, Intersection) and not node.notes
        found = self._text(relaxed) if is_searched else None
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
                    is_stuck = rest.pending and not isinstance(rest, Union)
                    if is_stuck and not self._has_room(rest):
                        continue
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


_ANY_TEXT = Comparison(bytes, lambda part, _: part)

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
