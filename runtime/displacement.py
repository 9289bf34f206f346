"""Displacement: who leaves so that others can run.

Owns who may be made to leave, how often, and in which order; changes nothing.

Age alone would be enough for progress: if only the youngest ever leaves, the oldest stays to its
end. Who leaves although somebody younger runs, because of priorities, is counted, and when it has
left often enough only its age counts: so the oldest stays all the same, a few times later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence as List

from runtime.cache.nodes import PageNode
from runtime.sequence import Sequence

MAX_DISPLACED = 4
"""Times that a sequence leaves between two parks although a younger one stays. Then it stays while
a younger one runs, until it parks or ends, so that what priorities make be computed again is at
most four times what it came to.
"""


def may_leave(sequence: Sequence, priority: int) -> bool:
    """For a sequence of that priority."""
    return sequence.priority < priority and sequence.displaced < MAX_DISPLACED


def who_leaves(
    sequence: Sequence, running: List[Sequence], is_room: Callable[[List[Sequence]], bool]
) -> List[Sequence]:
    """As few as possible, those of the lowest priority first, and of these the youngest; none where
    all of them together do not suffice. `is_room`: for the sequence, once these have left.
    """
    lower = [each for each in running if may_leave(each, sequence.priority)]
    lower.sort(key=lambda each: (each.priority, -each.admission))
    if not lower or not is_room(lower):
        return []
    count = bisect_left(range(1, len(lower)), True, key=lambda num: is_room(lower[:num])) + 1
    return lower[:count]


def who_gives_pages(running: List[Sequence]) -> Sequence:
    """When pages have run out, of those that run, the oldest first: of the lowest priority, the
    youngest.
    """
    *older, youngest = running
    may = [youngest, *(each for each in reversed(older) if each.displaced < MAX_DISPLACED)]
    return min(may, key=lambda each: each.priority)


def num_pages_of(leaving: List[Sequence], path: List[PageNode]) -> int:
    """Pages that can be had once these have left, `path` aside: who comes takes those itself."""
    locks = Counter(node for each in leaving for node in each.nodes)
    for node in path:
        del locks[node]
    num_unshared = sum(len(each.pages) - len(each.nodes) for each in leaving)
    return num_unshared + sum(node.locks == num for node, num in locks.items())
