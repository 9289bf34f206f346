"""What must differ, completed. Owns which texts the parts get that are still needed.

What a noting reference stands for is completed by one of its *ways* (see `expr.Way`): parts in a
line, of which those that must differ get *spares*, short texts that are not taken. It must not know
what is written, nor how texts of a part are found (that is `spares`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable

from grammars.algebra import Algebra
from grammars.expr import Expr, Part, Ref, Way
from grammars.noting import SLACK
from grammars.spares import Comparison, Spare, Spares
from grammars.spelling import BYTES_PER_STEP, UNREACHABLE, Choosing, Speller, Spelling

MOST_ALIKE = 24
"""Places of a search that differ in what was written alone, of which one leads to a text if any
does: more than equal texts that a short text has."""


class Differing:
    """Completions of the noting references of one algebra. Memoised. `spelling`: that of a short
    string of any expression.
    """

    def __init__(
        self, algebra: Algebra, speller: Speller, spelling: Callable[[Expr], Spelling]
    ) -> None:
        self._algebra = algebra
        self._speller = speller
        self._spelling = spelling
        self._going_on: dict[tuple[object, Hashable], bool] = {}
        self._completed: dict[tuple[object, Hashable, bool, Spelling], Spelling] = {}
        self._placed: dict[tuple[Part, Expr | None, Spelling], Spelling] = {}
        self._costs: dict[tuple[Part, bytes], int] = {}
        self._spares: dict[tuple[object, Expr], Spares] = {}

    def has_text(self, node: Expr) -> bool:
        """Whether a state has a string, though what it passes is noted."""
        length, alike = self._length, MOST_ALIKE
        search = Spares(self._algebra, node, _ANY_TEXT, length, most_alike=alike)
        return search.get(0) is not None

    def can_go_on(self, node: Ref) -> bool:
        """Whether there are texts for the parts that a noting reference needs."""
        assert node.noting is not None, "only what notes has ways"
        key = (node.noting, node.noting.unwritten(node.key))
        if key not in self._going_on:
            ways = node.noting.ways(node.key)
            self._going_on[key] = any(self._chosen(node, way) is not None for way in ways)
        return self._going_on[key]

    def ahead(self, node: Ref, tail: Spelling) -> Choosing:
        """What completes the parts of a noting reference; the same for all bytes of one part."""
        assert node.noting is not None, "only what notes has ways"
        key = (node.noting, node.noting.unwritten(node.key), node.pending, tail)
        if key not in self._completed:
            self._completed[key] = yield from self._complete(node, tail)
        return self._completed[key]

    def _complete(self, node: Ref, tail: Spelling) -> Choosing:
        """What completes the parts of a noting reference.

        Known parts get texts of their own. Behind a part that is being written these may turn out
        to be taken: then others come in their place, so they are spelled one by one, and the cost
        is that of the dearest. Without notes, any texts stand for those.
        """
        assert node.noting is not None, "only what notes has ways"
        for way in node.noting.ways(node.key):
            spares = self._chosen(node, way)
            if spares is not None:
                break
        else:
            return self._speller.nowhere
        needed = _needed(way)
        texts = [part.others for part in needed if part.others is not None]
        slack = SLACK if node.pending else 0
        if way.taken is not None:
            slack = (yield from self._spare_cost(node, way, spares)) if node.is_open else 0
            texts = [self._algebra.literal(spare.text) for spare in spares]
        if node.pending or (node.is_open and needed):
            tail = self._speller.fenced(tail, slack, is_sure=False)
        return (yield from self._lined_up(way, texts, tail))

    def _lined_up(self, way: Way, texts: list[Expr], tail: Spelling) -> Choosing:
        """The parts of a way; those that must differ are `texts`. No token joins one of these with
        others, so another in its place costs as much more as it is dearer.
        """
        fenced = self._speller.fenced
        for part in reversed(way.parts):
            self._algebra.budget.spend()
            text = None if part.others is None else texts.pop()
            key = (part, text, tail)
            if key not in self._placed:
                if text is None:
                    made = yield part.lead, tail
                else:
                    made = fenced((yield from _placed(part, text, fenced(tail, 0))), 0)
                self._placed[key] = made
            tail = self._placed[key]
        return (yield way.lead, tail)

    # -- texts of their own --------------------------------------------------------------------

    def _chosen(self, node: Ref, way: Way) -> list[Spare] | None:
        """Different texts for the parts of a way that need some; None where there are not enough,
        and no text where nothing is known of what is taken.

        The first that may be taken come last: so, when the next part is known, the rest is as it
        was.
        """
        if way.taken is None:
            return []
        kinds = [part.others for part in _needed(way) if part.others is not None]
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
        self._algebra.budget.spend(index // BYTES_PER_STEP)
        return found

    def _spare_cost(
        self, node: Ref, way: Way, chosen: list[Spare]
    ) -> Generator[tuple[Expr, Spelling], Spelling, int]:
        """How much dearer the way may become when the part before it takes one of its texts."""
        if not chosen:
            return 0
        assert way.taken is not None, "what is taken is known"
        taken = set(way.taken) | {spare.value for spare in chosen}
        needed, costs = _needed(way), []
        for part, spare in zip(needed, chosen, strict=True):
            costs.append((yield from self._cost(part, spare)))
        least = dearest = min(costs)
        for part in dict.fromkeys(needed):
            assert part.others is not None, "only those that must differ have spares"
            for spare in self._free(self._spares_of(part.others, node), taken, 1):
                dearest = max(dearest, (yield from self._cost(part, spare)))
        return dearest - least

    def _cost(self, part: Part, spare: Spare) -> Generator[tuple[Expr, Spelling], Spelling, int]:
        """The tokens of a part with a text of its own, by itself."""
        key = (part, spare.text)
        if key not in self._costs:
            text = self._algebra.literal(spare.text)
            self._costs[key] = (yield from _placed(part, text, self._speller.end)).cost
        return self._costs[key]

    def _spares_of(self, others: Expr, node: Ref) -> Spares:
        """Texts of an expression that differ as `node` compares them."""
        assert node.noting is not None, "only what notes compares"
        key = (node.noting, others)
        if key not in self._spares:
            comparison = Comparison(node.noting.read, node.noting.other_than)
            self._spares[key] = Spares(self._algebra, others, comparison, self._length)
        return self._spares[key]

    def _length(self, node: Expr) -> int | None:
        """The bytes of a short string of `node`; None where it has none."""
        found = self._spelling(node)
        return found.length if found.cost < UNREACHABLE else None


def _needed(way: Way) -> list[Part]:
    """The parts that must differ."""
    return [part for part in way.parts if part.others is not None]


def _placed(part: Part, text: Expr, tail: Spelling) -> Choosing:
    """A part with a text of its own, in front of a tail."""
    behind = yield part.trail, tail
    behind = yield text, behind
    return (yield part.lead, behind)


_ANY_TEXT = Comparison(bytes, lambda part, _: part)
