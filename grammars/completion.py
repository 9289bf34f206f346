"""The cheapest way to finish. Owns witnesses, their spelling in tokens, and whether a state is
alive.

A *witness* of an expression is one short string of it: chosen by structure for the plain operators,
found by breadth-first search over derivatives where an intersection or a complement stands (which
is how their emptiness is decided), and by their ways where parts must differ (see `differing`).

The cost is an upper bound of the true minimum: the cheapest of the witnesses looked at. The matcher
carries the spelling's tokens as its plan, and that makes the bound a guarantee.
It must not know of masks, matchers or front ends.
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.derive import arms, step
from grammars.differing import Differing
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
from grammars.noting import SLACK, begun, has_room, loosened
from grammars.relax import relax
from grammars.spelling import (
    BYTES_PER_CELL,
    BYTES_PER_STEP,
    UNREACHABLE,
    Choosing,
    Speller,
    Spelling,
)
from grammars.vocabulary import Vocabulary

TRIED_BYTES = 4
"""Bytes of a set tried as its witness: a few, since every one costs a walk down the trie."""

TRIED_WORDS = 64
"""Words of a table tried as its witness: the shortest."""


class Completions:
    """Spellings of witnesses for the expressions of one algebra, in one vocabulary. Memoised."""

    def __init__(self, algebra: Algebra, vocabulary: Vocabulary) -> None:
        self.algebra = algebra
        self.vocabulary = vocabulary
        self._speller = Speller(vocabulary, algebra.budget)
        self._differing = Differing(algebra, self._speller, self.spelling)
        self._of: dict[Expr, Spelling] = {algebra.empty: self._speller.nowhere}
        self._before: dict[tuple[Expr, Spelling], Spelling] = {}
        self._rounds: dict[tuple[Expr, Spelling], list[Spelling]] = {}
        self._found: dict[Expr, bytes | None] = {algebra.empty: None}
        self._alive: dict[Expr, bool] = {}
        self._roomy: dict[Expr, bool] = {}
        self._excess: dict[Expr, int] = {}

    # -- what the rest of the package asks -----------------------------------------------------

    def cost(self, node: Expr) -> int:
        """The tokens of the cheapest string of `node` that is known; 0 when it may end here."""
        return 0 if node.nullable else self.spelling(node).cost

    def known_cost(self, node: Expr) -> int | None:
        """The same, where it was found on the way to another; None where it was not."""
        found = self._of.get(node) or self._before.get((node, self._speller.end))
        return None if found is None else found.cost

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
            return self._differing.can_go_on(node)
        if isinstance(node, Intersection) and node.notes:
            if loosened(self.algebra, node) is not node:
                return self._differing.has_text(node)
        if node.plain:
            return node is not self.algebra.empty
        return self.witness(node) is not None

    def spell(self, data: bytes) -> Spelling:
        """The spelling of given bytes."""
        return self._speller.bytes(data, self._speller.end)

    def in_front(self, data: bytes, plan: Spelling) -> Spelling:
        """The spelling of given bytes in front of a plan."""
        return self._speller.bytes(data, plan) if plan.cost < UNREACHABLE else plan

    def spelling(self, node: Expr) -> Spelling:
        """The spelling of the witness of `node` (cost UNREACHABLE when there is none)."""
        if node.nullable:
            return self._speller.end
        spine: list[Expr] = []
        rest: Expr = node
        while isinstance(rest, Concat) and rest not in self._of:
            spine.append(rest)
            rest = rest.tail
        if rest not in self._of:
            self._of[rest] = self._prepend(rest, self._speller.end)
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
        found = plain.text() if is_text else self._sure_text(node)
        whole = self._speller.nowhere if found is None else self.spell(found)
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
                return before + text[:end] + self.spelling(passed[-1]).text()
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
        return found.text() if found.cost < UNREACHABLE else None

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
        speller = self._speller
        if isinstance(node, Literal):  # kept, too: what comes before it is kept by its spelling
            return speller.bytes(node.data, tail)
        if isinstance(node, ByteSet):
            likely = speller.likely(node.mask, TRIED_BYTES)
            return speller.cheapest([speller.byte(byte, tail) for byte in likely])
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
            return speller.cheapest([speller.bytes(word[node.depth :], tail) for word in words])
        if isinstance(node, Ref):
            if node.noting is not None:
                return (yield from self._differing.ahead(node, tail))
            return (yield node.rules.least(node.key), tail)
        if isinstance(node, Empty | Epsilon):
            return tail if node.nullable else speller.nowhere
        if isinstance(node, Intersection) and node.notes:
            # no search, since what it passes is not written; what is excluded is little
            kept = next(part for part in node.options if not isinstance(part, Complement))
            return speller.fenced((yield kept, tail), SLACK, is_sure=False)
        found = self.witness(node)
        return speller.nowhere if found is None else speller.bytes(found, tail)

    def _any_of(self, node: Union, tail: Spelling) -> Choosing:
        """The cheapest of some alternatives. Of the spellings of a character, single bytes come
        first: the others are many, and hardly ever cheaper.
        """
        for option in node.options:
            if isinstance(option, ByteSet) and option.mask.bit_count() > TRIED_BYTES:
                found = yield option, tail
                if found.cost <= tail.cost + 1:
                    return found
        cheapest = self._speller.nowhere
        for option in node.options:
            cheapest = self._speller.cheapest([cheapest, (yield option, tail)])
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
        is_searched = isinstance(node, Intersection) and not node.notes
        found = self._text(relaxed) if is_searched else None
        return len(found) if found is not None and len(found) <= room else UNREACHABLE

    def _text(self, node: Expr) -> bytes | None:
        """A string of `node`, whether it is plain or not; None when there is none."""
        if not node.plain:
            return self.witness(node)
        spelled = self.spelling(node)
        return spelled.text() if spelled.cost < UNREACHABLE else None

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
                        came_from[rest] = (here, self._speller.likely(mask, 1)[0])
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
            return self.spelling(node).text()
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
