"""The scheduler on the hash model: whatever it decides, every token is right, and it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from runtime.batch import Grant, build_batch
from runtime.cache.copies import Copy
from runtime.cache.prefix import PrefixCache
from runtime.displacement import MAX_DISPLACED, may_leave
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
        self.check_displacements()

    def check_displacements(self) -> None:
        scheduler = self.scheduler
        for sequence in (*scheduler._running, *scheduler._preempted):
            assert sequence.displaced <= MAX_DISPLACED

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
        sequence.salt = data.draw(st.sampled_from(["", "ours", "theirs"]))
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
    harness.cache.flush()
    assert harness.cache.num_salts == 0, "nothing is left of whom nobody serves"


@settings(max_examples=100, deadline=None)
@given(harnesses, prompts(), st.data())
def test_nobody_can_tell_what_was_computed_under_another_salt(
    harness: Harness, texts: list[list[int]], data: st.DataObject
) -> None:
    """One after another, so that all a run can see of those before is in the cache: for each, as
    many tokens are cached as if those of other salts had never been.
    """
    harness.num_pages = 1000
    harness.__post_init__()
    alone: dict[str, Harness] = {}
    for text in texts:
        salt = data.draw(st.sampled_from(["", "ours", "theirs"]))
        if salt not in alone:
            alone[salt] = Harness(num_pages=1000, reuse=harness.reuse)
        cached = []
        for each in (harness, alone[salt]):
            sequence = Sequence(text)
            sequence.salt = salt
            sequence.want_sample()
            each.scheduler.add(sequence)
            while not each.step():
                pass
            each.scheduler.remove(sequence)
            cached.append(sequence.cached)
        assert cached[0] == cached[1]


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


def wanting(prompt: list[int], *, priority: int = 0, num_new: int = 0) -> Sequence:
    """A sequence that draws."""
    sequence = Sequence(prompt)
    sequence.want_sample()
    sequence.priority = priority
    sequence.ahead = Ahead(len(prompt) + num_new)
    return sequence


def turn(harness: Harness) -> list[Sequence]:
    """A step whose tokens, the naive ones, are appended; returns who drew."""
    drawn = harness.step()
    for sequence, token in drawn:
        assert token == naive_next(sequence.tokens)
        sequence.append([token])
    return [sequence for sequence, _ in drawn]


def finish(harness: Harness, sequences: list[Sequence]) -> list[Sequence]:
    """Until each has drawn what it may; in the order of their ends."""
    ended: list[Sequence] = []
    for _ in range(500):
        for sequence in turn(harness):
            if len(sequence.tokens) >= sequence.ahead.end:
                harness.scheduler.remove(sequence)
                ended.append(sequence)
        if len(ended) == len(sequences):
            return ended
    raise AssertionError("everyone comes to an end")


def test_a_higher_priority_takes_the_row_of_a_lower_one_that_goes_on_later() -> None:
    harness = Harness(num_pages=100, max_running=2)
    low = [wanting([index, 1, 2, 3, 4], num_new=20) for index in range(2)]
    for sequence in low:
        harness.scheduler.add(sequence)
    for _ in range(3):
        turn(harness)
    high = wanting([9, 9, 9], priority=1, num_new=20)
    harness.scheduler.add(high)
    assert high in turn(harness)
    assert [each.displaced for each in low] == [0, 1], "the younger one"
    assert finish(harness, [*low, high])[-1] is low[1]
    counts = harness.scheduler.counts
    assert (counts.displacements, counts.preemptions) == (1, 0)
    harness.check_idle()


def test_it_takes_the_pages_of_as_few_as_it_needs() -> None:
    harness = Harness(num_pages=24, token_budget=100, max_running=8)
    low = [wanting([index] * 12, priority=index % 2, num_new=4) for index in range(6)]
    for sequence in low:
        harness.scheduler.add(sequence)
    turn(harness)
    assert harness.scheduler.num_running == 6, "of four pages each"
    high = wanting([9] * 26, priority=2, num_new=4)
    harness.scheduler.add(high)
    turn(harness)
    assert high.pages
    assert [each.displaced for each in low] == [0, 0, 1, 0, 1, 0], "of the lowest, the youngest"
    finish(harness, [*low, high])
    harness.check_idle()


def test_who_would_not_have_room_even_then_displaces_nobody() -> None:
    harness = Harness(num_pages=20, token_budget=64, max_running=8)
    low, mid = wanting([1] * 12, num_new=4), wanting([2] * 40, priority=1, num_new=4)
    for sequence in (mid, low):
        harness.scheduler.add(sequence)
        turn(harness)
    high = wanting([3] * 36, priority=1, num_new=4)
    harness.scheduler.add(high)
    turn(harness)
    assert (low.displaced, high.pages) == (0, [])
    finish(harness, [low, mid, high])


def test_a_row_that_left_often_enough_stays_and_ends_whoever_comes() -> None:
    harness = Harness(num_pages=100, max_running=1)
    low = wanting([1, 2, 3], num_new=8)
    harness.scheduler.add(low)
    for step in range(200):
        for sequence in turn(harness):
            if sequence is not low or len(low.tokens) == low.ahead.end:
                harness.scheduler.remove(sequence)
        if len(low.tokens) == low.ahead.end:
            break
        harness.scheduler.add(wanting([9, step % VOCAB], priority=5))
    assert (len(low.tokens), low.displaced) == (low.ahead.end, MAX_DISPLACED)
    assert harness.scheduler.counts.displacements == MAX_DISPLACED


def test_pages_that_run_out_are_those_of_the_lowest_priority() -> None:
    """Whoever needs them: an old row does not take those of a younger one that matters more."""
    harness = Harness(num_pages=9, token_budget=64, max_running=3, hopes=True)
    rows = [wanting([each] * 10, priority=each, num_new=8) for each in (1, 0, 2)]
    for sequence in rows:
        harness.scheduler.add(sequence)
        turn(harness)
    ended = finish(harness, rows)
    assert ended == [rows[0], rows[2], rows[1]]
    assert [each.displaced for each in rows] == [0, 1, 0], "the low one, though it was not youngest"
    assert harness.scheduler.counts.displacements == 0
    harness.check_idle()


growing = st.builds(
    Job,
    step=st.integers(0, 5),
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6),
    num_new=st.integers(6, 14),
    budget=st.just(14),
    priority=st.integers(-2, 2),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 9), st.integers(2, 6), st.lists(growing, min_size=6, max_size=16))
def test_nobody_gives_pages_while_a_lower_priority_keeps_them(
    num_pages: int, max_running: int, work: list[Job]
) -> None:
    """Nor while a younger one of the same does: but for those that have left often enough, who give
    theirs when they are the youngest.
    """
    harness = Harness(num_pages=num_pages, max_running=max_running, hopes=True)
    scheduler = harness.scheduler
    preempt = scheduler._preempt

    def checked(grants: list[Grant]) -> Sequence:
        running = [*scheduler._running]
        left_often = [each for each in running if each.displaced == MAX_DISPLACED]
        gone = preempt(grants)
        assert gone not in left_often or gone is running[-1]
        for stays in running:
            behind = stays.priority < gone.priority or (
                stays.priority == gone.priority and stays.admission > gone.admission
            )
            assert not behind or stays in left_often
        assert all(grant.sequence is not gone for grant in grants)
        return gone

    scheduler._preempt = checked  # type: ignore[method-assign]
    perform(harness, work)


def test_a_low_priority_keeps_its_pages_in_the_end_however_many_high_ones_want_them() -> None:
    harness = Harness(num_pages=10, token_budget=64, max_running=4, hopes=True)
    low = wanting([1] * 10, num_new=24)
    harness.scheduler.add(low)
    for step in range(400):
        for sequence in turn(harness):
            if len(sequence.tokens) >= sequence.ahead.end:
                harness.scheduler.remove(sequence)
        if len(low.tokens) == low.ahead.end:
            break
        if harness.scheduler.num_waiting < 4:
            harness.scheduler.add(wanting([step % VOCAB] * 6, priority=5, num_new=8))
    assert (len(low.tokens), low.displaced) == (low.ahead.end, MAX_DISPLACED)
    assert harness.scheduler.counts.preemptions > 0


@settings(max_examples=100, deadline=None)
@given(st.lists(jobs, min_size=1, max_size=40), st.integers(1, 4), st.sampled_from([*POLICIES]))
def test_no_row_runs_for_long_while_a_higher_priority_waits(
    work: list[Job], max_running: int, policy: str
) -> None:
    """But for those that have left often enough: two steps, where who had waited longest came in
    between.
    """
    harness = Harness(
        num_pages=1000, token_budget=400, max_running=max_running, reuse=False, policy=policy
    )
    scheduler, since = harness.scheduler, 0

    def check() -> None:
        nonlocal since
        waiting = [place.sequence for place in scheduler._waiting._places.values()]
        highest = max((each.priority for each in (*waiting, *scheduler._preempted)), default=-9)
        wrong = any(may_leave(each, highest) for each in scheduler._running)
        since = since + 1 if wrong else 0
        assert since <= 2

    step = harness.step

    def checked() -> list[tuple[Sequence, int]]:
        drawn = step()
        check()
        return drawn

    harness.step = checked  # type: ignore[method-assign]
    perform(harness, work)


@settings(max_examples=100, deadline=None)
@given(harnesses, st.lists(jobs, min_size=1, max_size=40))
def test_who_is_let_in_by_need_is_never_preempted(harness: Harness, work: list[Job]) -> None:
    """As long as nothing has shown that budgets are not used up: then their pages are kept."""
    harness.scheduler.usage = Usage()
    perform(harness, work)
    assert harness.scheduler.counts.preemptions == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=4, max_size=4),
    st.integers(8, 12),
    st.integers(4, 16),
    st.integers(0, 3),
)
def test_guesses_take_what_nobody_needs_and_leave_nothing_behind(
    lengths: list[int], num_pages: int, token_budget: int, num_right: int
) -> None:
    """No one is preempted for them, pages that only wrong ones need are free again, and those that
    were right are as good as drawn.
    """
    harness = Harness(num_pages=num_pages, token_budget=token_budget, hopes=True)
    scheduler, cache = harness.scheduler, harness.cache
    for index in range(4):
        sequence = Sequence([index, index])
        sequence.want_sample()
        scheduler.add(sequence)
    for _ in range(4):
        grants = scheduler.schedule()
        granted = [grant.num_tokens for grant in grants]
        preemptions, available = scheduler.counts.preemptions, cache.num_available
        asked = {
            grant.sequence.id: tuple(range(length))
            for grant, length in zip(grants, lengths, strict=False)
            if grant.samples
        }
        drafted = scheduler.add_drafts(grants, asked)
        assert scheduler.counts.preemptions == preemptions
        assert [g.num_tokens - len(g.draft) for g in drafted] == granted
        assert sum(grant.num_tokens for grant in drafted) <= token_budget
        assert all(g.draft == asked.get(g.sequence.id, ())[: len(g.draft)] for g in drafted)
        harness.executor.forward(build_batch(drafted, PAGE))
        for grant in drafted:
            grant.sequence.append(grant.draft[:num_right])
        scheduler.commit(drafted)
        for grant, num_tokens in zip(drafted, granted, strict=True):
            sequence, draft = grant.sequence, grant.draft[:num_right]
            assert sequence.computed == grant.start + num_tokens + len(draft)
            assert len(sequence.pages) == -(-sequence.computed // PAGE)
            if sequence.gap == 0:
                sequence.append([naive_next(sequence.tokens)])
        if num_right == 0:
            assert cache.num_available >= available
        cache.check_integrity()
