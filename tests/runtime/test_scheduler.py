"""The scheduler on the hash model: whatever it decides, every token is right, and it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from runtime.batch import Grant, build_batch
from runtime.cache.copies import Copy
from runtime.cache.prefix import PrefixCache
from runtime.foresight import Ahead, Usage
from runtime.policies import POLICIES
from runtime.sampling.request import SampleRequest, SampleRow
from runtime.scheduler import AGEING, Scheduler
from runtime.sequence import Sequence
from runtime.token_tree import TokenTree
from tests.fakes import Fickle, HashExecutor, Hope, extend_hash, hash_logits, log_softmax

VOCAB = 50
PAGE = 4
EVENTS = ["rewrite", "literal", "park", "cut"]


def naive_next(tokens: list[int]) -> int:
    prefix = 0
    for token in tokens:
        prefix = extend_hash(prefix, token)
    return int(hash_logits(prefix, VOCAB).argmax())


def naive_score(tokens: list[int], start: int) -> list[float]:
    prefix, scores = 0, []
    for index, token in enumerate(tokens):
        if index >= start:
            scores.append(float(log_softmax(hash_logits(prefix, VOCAB))[token]))
        prefix = extend_hash(prefix, token)
    return scores


@dataclass
class Harness:
    """A scheduler and a hash executor; the test plays the programs' part."""

    num_pages: int = 32
    num_host_pages: int = 0
    token_budget: int = 16
    max_running: int = 4
    reuse: bool = True
    policy: str = "lpm"
    hopes: bool = False
    fickle: bool = False
    cache: PrefixCache = field(init=False)
    scheduler: Scheduler = field(init=False)
    executor: HashExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PrefixCache(
            num_pages=self.num_pages,
            page_size=PAGE,
            reuse=self.reuse,
            num_host_pages=self.num_host_pages,
        )
        self.scheduler = Scheduler(
            self.cache,
            token_budget=self.token_budget,
            max_running=self.max_running,
            policy=POLICIES[self.policy],
        )
        if self.hopes:
            self.scheduler.usage = Hope()
        if self.fickle:
            self.scheduler.rates = Fickle()
        num_slots = (self.num_pages + self.num_host_pages) * PAGE
        self.executor = HashExecutor(vocab_size=VOCAB, num_slots=num_slots, page_size=PAGE)
        self.scores: dict[int, dict[int, list[float]]] = {}

    def step(self) -> list[tuple[Sequence, int]]:
        """One turn; returns who drew which token (not appended yet)."""
        grants = self.scheduler.schedule()
        self.check(grants)
        if not grants:
            return []
        batch = build_batch(grants, PAGE)
        request = SampleRequest([SampleRow()] * len(batch.sampled))
        self.executor.copy(self.scheduler.take_copies())
        sampled = self.executor.sample(self.executor.forward(batch), batch, request)
        self.scheduler.commit(grants)
        scores = list(sampled.scores)
        for grant in grants:
            for place in grant.scored_at:
                found = [scores.pop(0) for _ in grant.sequence.targets(place)]
                self.scores.setdefault(grant.sequence.id, {})[place] = found
        assert not scores
        return [
            (grant.sequence, token)
            for grant, token in zip(batch.sampled, sampled.tokens, strict=True)
        ]

    def check(self, grants: list[Grant]) -> None:
        assert sum(grant.num_tokens for grant in grants) <= self.token_budget
        assert len(grants) <= self.max_running
        assert all(grant.num_tokens > 0 for grant in grants)
        assert len({grant.sequence.id for grant in grants}) == len(grants)
        self.cache.check_integrity()

    def check_idle(self) -> None:
        self.cache.check_integrity()
        assert self.cache.num_free + self.cache.num_cached == self.num_pages
        assert self.cache.num_available == self.num_pages
        assert all(node.waiters is None for node in (self.cache.root, *self.cache.nodes()))


@st.composite
def prompts(draw: st.DrawFn) -> list[list[int]]:
    """Prompts that share beginnings."""
    stems = draw(st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=20), min_size=1, max_size=3))
    ends = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)
    chosen = st.tuples(st.sampled_from(stems), ends).map(lambda pair: [*pair[0], *pair[1]])
    return draw(st.lists(chosen, min_size=1, max_size=10))


harnesses = st.builds(
    Harness,
    num_pages=st.integers(14, 40),
    num_host_pages=st.sampled_from([0, 1, 3, 40]),
    token_budget=st.integers(4, 24),
    max_running=st.integers(1, 4),
    reuse=st.booleans(),
    policy=st.sampled_from(sorted(POLICIES)),
    hopes=st.booleans(),
    fickle=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(harnesses, prompts(), st.integers(1, 12), st.data())
def test_every_sampled_token_is_the_naive_one(
    harness: Harness, texts: list[list[int]], num_new: int, data: st.DataObject
) -> None:
    """Also when tails are rewritten and sequences leave and come back in the middle."""
    left = {}
    for text in texts:
        sequence = Sequence(text)
        sequence.want_sample()
        sequence.priority, sequence.work = data.draw(st.integers(-1, 1)), len(text)
        sequence.ahead = Ahead(len(text) + num_new)
        left[sequence.id] = num_new
        harness.scheduler.add(sequence)
    for _ in range(3000):
        for sequence, token in harness.step():
            assert token == naive_next(sequence.tokens)
            left[sequence.id] -= 1
            if left[sequence.id] == 0:
                harness.scheduler.remove(sequence)
                del left[sequence.id]
                continue
            sequence.append([token])
            event = data.draw(
                st.sampled_from(["go on"] * 8 + ["rewrite", "literal", "park", "cut"])
            )
            if event in ("rewrite", "cut"):
                keep = data.draw(st.integers(0, len(sequence.tokens)))
                sequence.replace_tail(keep, [token] * (len(sequence.tokens) - keep or 1))
                sequence.want_sample()
            elif event == "literal":
                sequence.append([1, 2, 3])
            if event in ("park", "cut"):
                harness.scheduler.remove(sequence)
                harness.scheduler.add(sequence)
        if not left:
            break
    assert not left, "everyone comes to an end"
    harness.check_idle()


@settings(max_examples=100, deadline=None)
@given(harnesses, prompts(), st.data())
def test_every_score_is_the_naive_one(
    harness: Harness, texts: list[list[int]], data: st.DataObject
) -> None:
    texts = [text for text in texts if len(text) > 1]
    sequences = [
        Sequence(text, score_from=data.draw(st.integers(1, len(text) - 1))) for text in texts
    ]
    for sequence in sequences:
        harness.scheduler.add(sequence)
    waiting = {sequence.id: sequence for sequence in sequences}
    for _ in range(1000):
        harness.step()
        for sequence in list(waiting.values()):
            assert sequence.score_from is not None
            if len(harness.scores.get(sequence.id, ())) == len(sequence.tokens) - (
                sequence.score_from
            ):
                harness.scheduler.remove(waiting.pop(sequence.id))
        if not waiting:
            break
    for sequence in sequences:
        assert sequence.score_from is not None
        expected = naive_score(sequence.tokens, sequence.score_from)
        found = harness.scores[sequence.id]
        told = [score for place in sorted(found) for score in found[place]]
        assert told == pytest.approx(expected, abs=1e-9)
    harness.check_idle()


token = st.integers(0, 2)


@settings(max_examples=150, deadline=None)
@given(
    harnesses,
    st.lists(
        st.tuples(
            st.lists(token, min_size=1, max_size=30),
            st.lists(st.lists(token, max_size=20), min_size=1, max_size=12),
        ),
        min_size=1,
        max_size=8,
    ),
    prompts(),
    st.sets(st.integers(1, 20), max_size=2),
)
def test_every_score_of_a_tree_is_the_naive_one(
    harness: Harness,
    asked: list[tuple[list[int], list[list[int]]]],
    others: list[list[int]],
    too_large: set[int],
) -> None:
    """Among others that draw tokens, whatever the budget, and when pages run out, or memory in
    these steps.
    """
    trees = {}
    for before, texts in asked:
        tree = TokenTree(texts)
        sequence = Sequence(before, tree=tree)
        if tree.edges and sequence.max_slots <= harness.num_pages * PAGE:
            trees[sequence.id] = sequence, tree, texts
            harness.scheduler.add(sequence)
    drawing = {}
    for prompt in others:
        sequence = Sequence(prompt)
        sequence.want_sample()
        drawing[sequence.id] = sequence
        harness.scheduler.add(sequence)
    waiting = {key: sequence for key, (sequence, _, _) in trees.items()}
    for step in range(3000):
        harness.executor.memory = 1 if step in too_large else None
        try:
            came = harness.step()
        except MemoryError:  # in the middle of it
            harness.scheduler.shrink(harness.executor.log[-1])
            continue
        for sequence, drawn in came:
            assert drawn == naive_next(sequence.tokens)
            harness.scheduler.remove(drawing.pop(sequence.id))
        for key in list(waiting):
            found = harness.scores.get(key, {})
            if sum(map(len, found.values())) == len(trees[key][1].edges):
                harness.scheduler.remove(waiting.pop(key))
        if not waiting and not drawing:
            break
    for key, (sequence, tree, texts) in trees.items():
        found = harness.scores[key]
        told = [score for place in sorted(found) for score in found[place]]
        for path, text in zip(tree.paths, texts, strict=True):
            whole = [*sequence.tokens, *text]
            expected = naive_score(whole, len(sequence.tokens))
            assert [told[edge] for edge in path] == pytest.approx(expected, abs=1e-9)
    harness.check_idle()


def test_a_tree_of_any_size_lets_others_pass() -> None:
    """Also those that come when it runs already."""
    harness = Harness(num_pages=200, token_budget=16, max_running=4)
    texts = [[each // 100, each // 10 % 10, each % 10, 0] for each in range(1000)]
    tree = Sequence([1, 2, 3], tree=TokenTree(texts))
    harness.scheduler.add(tree)
    for _ in range(3):
        harness.step()
    newcomers = [Sequence([10 + each] * 20) for each in range(3)]
    for sequence in newcomers:
        sequence.want_sample()
        harness.scheduler.add(sequence)
    drawn: set[int] = set()
    for _ in range(12):
        for sequence, token in harness.step():
            assert token == naive_next(sequence.tokens)
            harness.scheduler.remove(sequence)
            drawn.add(sequence.id)
    assert drawn == {sequence.id for sequence in newcomers}
    assert tree.gap > 500
    while tree.gap > 100:
        before = tree.gap
        harness.step()
        assert tree.gap < before
    harness.scheduler.remove(tree)
    harness.check_idle()


def test_what_options_share_is_computed_once_and_their_last_tokens_not_at_all() -> None:
    harness = Harness(num_pages=200, token_budget=400, max_running=16)
    texts = [[7, 7, 7, each] for each in range(20)] + [[7, 7, 8, each] for each in range(20)]
    harness.scheduler.add(Sequence([1, 2, 3], tree=TokenTree(texts)))
    harness.step()
    assert harness.scheduler.counts.computed_tokens == 3 + 4
    assert harness.cache.num_available == harness.num_pages - 1, "a tree that fits has no pages"


def test_a_shared_prefix_is_computed_once() -> None:
    """Even when all of them arrive at once, and the budget would hold them all."""
    harness = Harness(num_pages=200, token_budget=400, max_running=16)
    stem = list(range(40))
    sequences = [Sequence([*stem, index]) for index in range(8)]
    for sequence in sequences:
        sequence.want_sample()
        harness.scheduler.add(sequence)
    drawn = 0
    while drawn < len(sequences):
        for sequence, _ in harness.step():
            harness.scheduler.remove(sequence)
            drawn += 1
    assert sum(harness.executor.log) == len(stem) + len(sequences)
    assert harness.scheduler.counts.cached_tokens == len(stem) * (len(sequences) - 1)


def let_in(harness: Harness, tokens: list[int], score_from: int | None = None) -> Sequence:
    sequence = Sequence(tokens, score_from=score_from)
    if score_from is None:
        sequence.want_sample()
    harness.scheduler.add(sequence)
    return sequence


def test_branches_that_part_in_the_middle_of_a_page_compute_nothing_twice() -> None:
    harness = Harness(num_pages=60, token_budget=99, max_running=16)
    stem = list(range(2 * PAGE + 2))
    parent = let_in(harness, stem)
    [(_, token)] = harness.step()
    parent.append([token])
    harness.scheduler.remove(parent)  # what was drawn is not computed
    branches = [let_in(harness, [*parent.tokens, index]) for index in range(8)]
    assert len(harness.step()) == len(branches)
    assert harness.executor.log == [len(stem), 2 * len(branches)]
    assert {branch.cached for branch in branches} == {len(stem)}


def test_a_page_that_a_running_sequence_has_begun_can_be_copied() -> None:
    harness = Harness(num_pages=60, token_budget=99, max_running=16)
    first = let_in(harness, [1, 2, 3])
    [(_, token)] = harness.step()
    first.append([token])
    second = let_in(harness, [1, 2, 9])
    assert dict(harness.step())[second] == naive_next([1, 2, 9])
    assert harness.executor.log == [3, 1 + 1]
    assert second.cached == 2


def test_what_is_being_computed_in_a_step_cannot_be_copied_in_it() -> None:
    harness = Harness(num_pages=60, token_budget=99, max_running=16)
    for last in range(3):
        let_in(harness, [1, 2, last])
    assert len(harness.step()) == 3
    assert harness.executor.log == [9]


def test_a_page_of_another_continuation_begins_as_ones_own() -> None:
    harness = Harness(num_pages=60, token_budget=99)
    harness.scheduler.remove(let_in_and_compute(harness, list(range(PAGE + 2))))
    other = let_in(harness, [0, 1, 2, 9, 9, 9])
    assert dict(harness.step())[other] == naive_next(other.tokens)
    assert other.cached == 3


def test_a_scored_token_is_never_copied_with_what_it_is_scored_from() -> None:
    harness = Harness(num_pages=60, token_budget=99)
    tokens = list(range(PAGE + 3))
    harness.scheduler.remove(let_in_and_compute(harness, tokens))
    scored = let_in(harness, tokens, score_from=PAGE + 1)
    harness.step()
    assert scored.cached == PAGE
    found = harness.scores[scored.id]
    scores = [found[i][0] for i in sorted(found)]
    assert scores == pytest.approx(naive_score(tokens, PAGE + 1))


def let_in_and_compute(harness: Harness, tokens: list[int]) -> Sequence:
    sequence = let_in(harness, tokens)
    harness.step()
    return sequence


def test_a_tail_that_is_rewritten_in_a_shared_page_keeps_what_is_right_of_it() -> None:
    harness = Harness(num_pages=60, token_budget=99)
    sequence = let_in_and_compute(harness, list(range(2 * PAGE)))
    sequence.replace_tail(2 * PAGE - 2, [7])
    sequence.want_sample()
    [(_, token)] = harness.step()
    assert token == naive_next(sequence.tokens)
    assert harness.executor.log == [2 * PAGE, 1]


def test_a_page_that_was_left_is_evicted_before_those_that_lead_to_it() -> None:
    harness = Harness(num_pages=3, token_budget=99)
    harness.scheduler.remove(let_in_and_compute(harness, list(range(2 * PAGE + 1))))
    assert harness.cache.num_free == 0
    assert harness.cache.allocate() is not None
    assert [len(node.key) for node in harness.cache.nodes()] == [PAGE, PAGE]


def test_slots_that_are_copied_need_room_too() -> None:
    harness = Harness(num_pages=3, token_budget=99, hopes=True)
    first = let_in(harness, [8] * (PAGE + 1))
    left = let_in(harness, [1, 2])
    harness.step()
    harness.scheduler.remove(left)
    waiting = let_in(harness, [1, 2, 3, 4, 5])
    first.append([8])
    assert [sequence for sequence, _ in harness.step()] == [first]
    harness.scheduler.remove(first)
    assert dict(harness.step())[waiting] == naive_next(waiting.tokens)


def run_each(harness: Harness, prompts: list[list[int]]) -> None:
    """One after another, to their first token."""
    for prompt in prompts:
        sequence = let_in(harness, prompt)
        assert dict(harness.step())[sequence] == naive_next(prompt)
        harness.scheduler.remove(sequence)


def test_a_page_that_was_evicted_comes_back_from_the_host() -> None:
    harness = Harness(num_pages=4, num_host_pages=8, token_budget=99)
    one, other = [1] * (3 * PAGE + 1), [2] * (3 * PAGE + 1)
    run_each(harness, [one, other, one, other])
    # Of the last page only one token is computed, and no more than that is ever lost.
    assert harness.executor.log == [3 * PAGE + 1, 3 * PAGE + 1, 1, 1]
    assert harness.scheduler.counts.fetched_tokens == 2 * 3 * PAGE
    harness.check_idle()


def test_a_page_is_computed_again_where_that_is_faster_than_to_copy_it() -> None:
    harness = Harness(num_pages=4, num_host_pages=8, token_budget=99)
    one, other = [1] * (3 * PAGE + 1), [2] * (3 * PAGE + 1)
    grants = [Grant(Sequence(one), 0, 10)]
    slow = [Copy(0, harness.num_pages, PAGE)]
    harness.scheduler.took(grants, slow, copy_s=3.0, compute_s=1.0)
    run_each(harness, [one, other, one])
    assert harness.executor.log == [3 * PAGE + 1] * 3
    assert harness.scheduler.counts.fetched_tokens == 0
    for _ in range(200):
        harness.scheduler.took(grants, slow, copy_s=0.1, compute_s=1.0)
    run_each(harness, [other])
    assert harness.executor.log[3:] == [1], "rates follow what is measured"


def test_decodes_say_nothing_of_what_a_prompt_costs() -> None:
    harness = Harness(num_host_pages=1)
    decodes = [Grant(Sequence([1]), 0, 1) for _ in range(3)]
    harness.scheduler.took([*decodes, Grant(Sequence([1]), 0, 2)], [], copy_s=0.0, compute_s=1.0)
    assert harness.scheduler.rates.computing.seconds is None
    harness.scheduler.took([Grant(Sequence([1]), 0, 2)], [], copy_s=0.0, compute_s=1.0)
    assert harness.scheduler.rates.computing.seconds == 0.5


def test_what_is_on_the_host_is_forgotten_too() -> None:
    harness = Harness(num_pages=4, num_host_pages=8, token_budget=99)
    run_each(harness, [[1] * (3 * PAGE + 1), [2] * (3 * PAGE + 1)])
    harness.cache.flush()
    harness.check_idle()
    assert list(harness.cache.nodes()) == []
    run_each(harness, [[1] * (3 * PAGE + 1)])
    assert harness.executor.log[-1] == 3 * PAGE + 1


def test_a_beginning_on_the_host_can_be_copied() -> None:
    harness = Harness(num_pages=3, num_host_pages=8, token_budget=99)
    run_each(harness, [[1] * (2 * PAGE + 1), [2] * (2 * PAGE + 1), [1] * (2 * PAGE - 1) + [9]])
    assert harness.executor.log[-1] == 1


def test_the_oldest_keeps_its_pages_when_they_run_out() -> None:
    harness = Harness(num_pages=8, token_budget=16, max_running=4, hopes=True)
    sequences = [Sequence([index] * 7) for index in range(4)]
    for sequence in sequences:
        sequence.want_sample()
        harness.scheduler.add(sequence)
    finished: list[int] = []
    for _ in range(500):
        for sequence, token in harness.step():
            sequence.append([token])
            if len(sequence.tokens) == 24:
                harness.scheduler.remove(sequence)
                finished.append(sequence.id)
    assert finished == [sequence.id for sequence in sequences]
    assert harness.scheduler.counts.preemptions > 0
    harness.check_idle()


def test_decodes_are_not_held_up_by_a_long_prompt() -> None:
    harness = Harness(num_pages=200, token_budget=8, max_running=4)
    decoding = Sequence([1, 2, 3])
    decoding.want_sample()
    harness.scheduler.add(decoding)
    [(_, token)] = harness.step()
    decoding.append([token])
    long = Sequence(list(range(VOCAB)) * 4)
    long.want_sample()
    harness.scheduler.add(long)
    for _ in range(10):
        drawn = harness.step()
        assert decoding in [sequence for sequence, _ in drawn]
        decoding.append([token])


def test_coming_back_is_no_cache_hit() -> None:
    harness = Harness()
    sequence = Sequence(range(20))
    sequence.want_sample()
    for _ in range(3):
        harness.scheduler.add(sequence)
        while not harness.step():
            pass
        harness.scheduler.remove(sequence)
    counts = harness.scheduler.counts
    assert (counts.prompt_tokens, counts.cached_tokens) == (20, 0)
    assert sequence.cached == 19, "but its own meta info tells what was not computed again"


@dataclass
class Job:
    """A sequence to come: when, and how much it draws of its budget."""

    step: int
    prompt: list[int]
    num_new: int
    budget: int
    priority: int


jobs = st.builds(
    Job,
    step=st.integers(0, 30),
    prompt=st.lists(st.integers(0, 1), min_size=1, max_size=10),
    num_new=st.integers(1, 6),
    budget=st.integers(6, 10),
    priority=st.integers(-3, 3),
)


def perform(harness: Harness, work: list[Job]) -> dict[int, tuple[int, int]]:
    """Until all are done; for each sequence, how many waited when it came, and how many were let in
    from then on until it was, itself included.
    """
    left: dict[int, int] = {}
    came: dict[int, tuple[Sequence, int, int]] = {}
    for step in range(3000):
        for job in [job for job in work if job.step == step]:
            sequence = Sequence(job.prompt)
            sequence.want_sample()
            sequence.priority, sequence.work = job.priority, len(job.prompt) + job.budget
            sequence.ahead = Ahead(len(job.prompt) + job.budget)
            left[sequence.id] = job.num_new
            num_waiting = sum(each.admission < 0 for each, _, _ in came.values())
            came[sequence.id] = (sequence, num_waiting, len(came) - num_waiting)
            harness.scheduler.add(sequence)
        for sequence, token in harness.step():
            sequence.append([token])
            left[sequence.id] -= 1
            if left[sequence.id] == 0:
                harness.scheduler.remove(sequence)
                del left[sequence.id]
        if not left and step > 30:
            break
    assert not left, "everyone comes to an end"
    harness.check_idle()
    return {
        id_: (num_waiting, sequence.admission - num_before + 1)
        for id_, (sequence, num_waiting, num_before) in came.items()
    }


@settings(max_examples=100, deadline=None)
@given(harnesses, st.lists(jobs, min_size=1, max_size=60))
def test_nobody_waits_longer_than_the_bound(harness: Harness, work: list[Job]) -> None:
    for num_waiting, num_let_in in perform(harness, work).values():
        assert num_let_in <= AGEING * (num_waiting + 1)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_low_priority_gets_its_turn_however_many_high_ones_come(policy: str) -> None:
    harness = Harness(max_running=1, policy=policy)
    high = [Job(step, [1], 1, 6, 3) for step in range(31) for _ in range(2)]
    low = Job(0, [0], 1, 6, -3)
    waits = list(perform(harness, [*high[:2], low, *high[2:]]).values())
    assert waits[2] == (2, 2 + AGEING), "the first two had waited longest, too"


def test_a_higher_priority_goes_first() -> None:
    harness = Harness(max_running=1)
    low, high = Sequence([1, 2, 3]), Sequence([4, 5, 6])
    high.priority = 1
    for sequence in (low, high):
        sequence.want_sample()
        harness.scheduler.add(sequence)
    assert [sequence for sequence, _ in harness.step()] == [high]


@settings(max_examples=100, deadline=None)
@given(harnesses, st.lists(jobs, min_size=1, max_size=40))
def test_who_is_let_in_by_need_is_never_preempted(harness: Harness, work: list[Job]) -> None:
    """As long as nothing has shown that budgets are not used up: then their pages are kept."""
    harness.scheduler.usage = Usage()
    perform(harness, work)
    assert harness.scheduler.counts.preemptions == 0
