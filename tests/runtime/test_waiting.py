"""The waiting queue against a walk down the tree for everyone, every time."""

from __future__ import annotations

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache
from runtime.policies import POLICIES
from runtime.sequence import Sequence
from runtime.waiting import WaitingQueue

PAGE = 2
NUM_PAGES = 7

prompts = st.lists(st.integers(0, 1), min_size=1, max_size=9)
policies = st.sampled_from(sorted(POLICIES))


def births(path: list[PageNode]) -> list[float]:
    return [*(node.born for node in path), float("inf")]


class QueueMachine(RuleBasedStateMachine):
    """Pages come and go while sequences wait; the judge sorts all of them from the start."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(num_pages=NUM_PAGES, page_size=PAGE)
        self.queue: WaitingQueue | None = None
        self.waiting: list[Sequence] = []  # oldest first

    @precondition(lambda self: self.queue is None)
    @rule(name=policies)
    def choose(self, name: str) -> None:
        self.queue = WaitingQueue(self.cache, POLICIES[name])

    @precondition(lambda self: self.queue is not None)
    @rule(
        prompt=prompts,
        priority=st.integers(0, 1),
        group=st.integers(0, 2),
        work=st.integers(0, 2),
        scored=st.booleans(),
    )
    def add(self, prompt: list[int], priority: int, group: int, work: int, scored: bool) -> None:
        assert self.queue is not None
        sequence = Sequence(prompt, score_from=(len(prompt) + 1) // 2 if scored else None)
        sequence.priority, sequence.group, sequence.work = priority, group, work
        self.queue.add(sequence)
        self.waiting.append(sequence)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        assert self.queue is not None
        sequence = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(sequence)
        self.queue.remove(sequence)

    @rule(prompt=prompts)
    def compute(self, prompt: list[int]) -> None:
        """Cache a prompt's pages, whatever has to be evicted for them."""
        path = self.cache.match(prompt, len(prompt))
        for node in path:
            self.cache.lock(node)
        for start in range(len(path) * PAGE, len(prompt) - PAGE + 1, PAGE):
            page = self.cache.allocate()
            assert page is not None, "nothing else is locked"
            parent = path[-1] if path else self.cache.root
            path.append(self.cache.insert(parent, tuple(prompt[start : start + PAGE]), page))
        for node in reversed(path):
            self.cache.unlock(node)

    @rule()
    def flush(self) -> None:
        self.cache.flush()

    def path(self, sequence: Sequence) -> list[PageNode]:
        return self.cache.match(sequence.tokens, sequence.cacheable)

    def rank(self, name: str, sequence: Sequence) -> tuple[float, list[float], int]:
        path = self.path(sequence)
        measures: dict[str, list[float]] = {
            "lpm": [-len(path)],
            "dfs": births(path),
            "fcfs": [],
            "sjf": [sequence.work],
        }
        return (-sequence.priority, measures[name], sequence.group)

    @invariant()
    def who_comes_next_is_the_first_of_a_sorted_list(self) -> None:
        queue = self.queue
        if queue is None:
            return
        queue.settle()
        assert len(queue) == len(self.waiting)
        assert queue.num_tokens == sum(len(sequence.tokens) for sequence in self.waiting)
        name = queue.policy.name
        expected = sorted(self.waiting, key=lambda each: self.rank(name, each))  # it is stable
        found = []
        while (place := queue.first()) is not None:
            found.append(place.sequence)
            assert place.path == self.path(place.sequence)
            queue.set_aside(place)
        queue.restore()
        assert found == expected
        if self.waiting:
            assert queue.is_oldest(self.waiting[0])
            oldest = queue.oldest()
            assert oldest.sequence is self.waiting[0]
            assert oldest.path == self.path(oldest.sequence)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_who_is_first_is_exact_while_thousands_still_move() -> None:
    """All of them can go down, some at a time: whoever is asked for has gone down already."""
    cache = PrefixCache(num_pages=NUM_PAGES, page_size=PAGE)
    queue = WaitingQueue(cache, POLICIES["lpm"])
    for index in range(2000):
        queue.add(Sequence([1, 2, 3, 4, index]))
    first = cache.insert(cache.root, (1, 2), cache.allocate() or 0)
    second = cache.insert(first, (3, 4), cache.allocate() or 0)
    queue.settle()
    for _ in range(2000):
        place = queue.first()
        assert place is not None
        assert place.path == [first, second]
        queue.remove(place.sequence)
    assert first.waiters is second.waiters is cache.root.waiters is None
