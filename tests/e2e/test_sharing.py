"""Equal greedy generations are computed once, and nobody can tell by the output."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from grammars import Choices, CompileBudgetError, Constraint, Matcher, Regex
from runtime import sharing
from runtime.batch import Batch
from runtime.line import Line
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramState
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Fork, Gen, Sampling, Text
from sgdsl.run import Run
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S, await_that

PROMPTS = ["license", "licence of the work", "the work"]
MAX_TOKENS = 12


@dataclass
class Plan:
    """A run of one gen: when it begins (in steps), and when it is cancelled, if it is."""

    prompt: int
    begins: int
    temperature: float = 0.0
    is_constrained: bool = False
    is_continued: bool = False
    cancelled: int | None = None
    run: Run = field(init=False)

    def make(self, service: HashService) -> Run:
        self.run = Run(template=service.chat_template, defaults=DEFAULT_SAMPLING, seed=7)
        sampling = Sampling(temperature=self.temperature, max_tokens=MAX_TOKENS)
        constraint = Regex("[a-z ]{4,30}") if self.is_constrained else None
        nodes: list[Text | Gen] = [
            Text(0, ROOT, None, PROMPTS[self.prompt]),
            Gen(1, ROOT, None, "x", sampling, constraint),
        ]
        if self.is_continued:  # what follows needs the KV of what was never computed
            nodes += [Text(2, ROOT, None, " and"), Gen(3, ROOT, None, "y", sampling, constraint)]
        self.run.extend(nodes)
        self.run.close()
        return self.run


plans = st.lists(
    st.builds(
        Plan,
        prompt=st.integers(0, 2),
        begins=st.integers(0, 8),
        temperature=st.sampled_from([0.0, 0.0, 0.0, 1.0]),
        is_constrained=st.booleans(),
        is_continued=st.booleans(),
        cancelled=st.none() | st.integers(0, 14),
    ),
    max_size=8,
)


def outputs(service: HashService, plans: list[Plan]) -> list[str | None]:
    """The engine is stepped by hand; the texts of those that were not cancelled."""
    programs, store = service.engine.programs, service.grammars
    for step in range(200):
        for plan in plans:
            if plan.begins == step:
                run = plan.make(service)
                programs.start(run, store.prepare(run.pending_constraints()))
            if plan.cancelled is not None and plan.begins + plan.cancelled == step:
                plan.run.cancel()
                programs.wake(plan.run, {})
        service.engine.step()
    service.check_idle()
    found: list[str | None] = []
    for plan in plans:
        outcome = plan.run.outcome
        assert outcome is not None
        branch = plan.run.peek(ROOT)
        assert branch is not None
        found.append(None if outcome.status == "cancelled" else branch.text())
        assert outcome.status != "failed"
    return found


class Stepped(HashService):
    """Nobody but the test steps its engine: it is given no run through its thread."""

    def __init__(self, tokenizer: Tokenizer, *, share_outputs: bool) -> None:
        super().__init__(tokenizer, num_pages=200, share_outputs=share_outputs, max_running=4)


@settings(max_examples=60, deadline=None)
@given(plans=plans)
def test_nobody_can_tell_by_the_output(tokenizer: Tokenizer, plans: list[Plan]) -> None:
    texts = []
    for share in (True, False):
        service = Stepped(tokenizer, share_outputs=share)
        try:
            texts.append(outputs(service, plans))
            assert share or service.engine.programs.shared.num_shared == 0
        finally:
            service.close()
    for plan, shared, alone in zip(plans, *texts, strict=True):
        # Who is shared may be done before it is cancelled; or, as it comes late to a place among
        # those that run, only after.
        cancelled = plan.cancelled is not None and None in (shared, alone)
        assert cancelled or (shared is not None and shared == alone)


def test_rows_that_are_equal_are_computed_once(make_service: MakeService) -> None:
    @sgl.function
    def note(s: ProgramState, text: str) -> None:
        s += text + sgl.gen("x", 8, temperature=0, ignore_eos=True)

    rows = [{"text": PROMPTS[index % 2]} for index in range(40)]
    found: dict[bool, tuple[list[str], int]] = {}
    for share in (True, False):
        service = make_service(share_outputs=share)
        states = note.run_batch(rows, backend=service)
        found[share] = [state.text() for state in states], service.step_stats.computed_tokens
    assert found[True][0] == found[False][0]
    assert found[True][1] * 10 < found[False][1]


def test_what_is_remembered_is_forgotten_with_the_cache(make_service: MakeService) -> None:
    @sgl.function
    def note(s: ProgramState) -> None:
        s += "license" + sgl.gen("x", 8, temperature=0, ignore_eos=True)

    service = make_service()
    text = note.run(backend=service).text()
    computed = service.step_stats.computed_tokens
    state = note.run(backend=service)
    assert state.text() == text
    assert service.step_stats.computed_tokens == computed
    meta = state.get_meta_info("x")
    assert meta["cached_tokens"] == meta["prompt_tokens"]
    assert meta["completion_tokens"] == 8
    service.flush_cache()
    assert note.run(backend=service).text() == text
    assert service.step_stats.computed_tokens > computed


def test_draws_and_log_probabilities_are_everybody_s_own(make_service: MakeService) -> None:
    @sgl.function
    def draw(s: ProgramState, temperature: float, *, logprobs: bool) -> None:
        s += "license" + sgl.gen("x", 8, temperature=temperature, return_logprob=logprobs)

    service = make_service()
    for temperature, logprobs in [(1.0, False), (0.0, True)]:
        rows = [(temperature,)] * 5
        draw.bind(logprobs=logprobs).run_batch(rows, backend=service)
    assert service.engine.programs.shared.num_shared == 0


def test_a_stream_of_one_that_follows_is_a_stream(make_service: MakeService) -> None:
    @sgl.function
    def note(s: ProgramState) -> None:
        s += "license" + sgl.gen("x", 30, temperature=0, ignore_eos=True)

    service = make_service()
    states = [note.run(backend=service, stream=True) for _ in range(3)]
    texts = ["".join(state.text_iter()) for state in states]
    assert texts == [states[0].text()] * 3


def remembering(
    tokenizer: Tokenizer, constraint: Constraint | None, num_tokens: int
) -> sharing.SharedOutputs:
    """300 outputs of so many tokens were written."""
    shared = sharing.SharedOutputs()
    run = Run(template=tokenizer.chat_template, defaults=DEFAULT_SAMPLING, seed=0)
    sampling = Sampling(temperature=0.0)
    drawn = sharing.Drawn(1, is_forced=False)
    for number in range(300):
        key = sharing.key_of([number], sampling, constraint, prefix=b"", limit=1)
        line = Line(ROOT, run)
        assert shared.join(key, line) is None
        for _ in range(num_tokens):
            shared.wrote(line, drawn)
        shared.finish(line)
    return shared


def test_the_outputs_that_are_remembered_are_bounded(tokenizer: Tokenizer) -> None:
    num_tokens = sharing.MAX_BYTES // sharing.BYTES_PER_TOKEN // 100
    shared = remembering(tokenizer, None, num_tokens)
    assert shared._num_bytes <= sharing.MAX_BYTES
    assert 90 <= len(shared._outputs) <= 100


def test_what_is_remembered_counts_with_its_constraint(tokenizer: Tokenizer) -> None:
    constraint = Choices(["x" * (sharing.MAX_BYTES // 100)])
    assert 90 <= len(remembering(tokenizer, constraint, 1)._outputs) <= 100


def test_short_outputs_count_with_what_they_are_remembered_by(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "MAX_BYTES", 200 << 10)
    assert 150 <= len(remembering(tokenizer, None, 1)._outputs) <= 200


@pytest.mark.parametrize("method", ["whole_mask", "accept_token"])
@pytest.mark.parametrize("remaining", [20, 15, 9])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_who_fails_among_equals_fails_alone(
    make_service: MakeService,
    monkeypatch: pytest.MonkeyPatch,
    *,
    method: str,
    remaining: int,
    victim: int,
) -> None:
    """What a step of a grammar may cost is bounded in time, so that of equals one may fail."""
    service = make_service(speculation="off")
    whole, asked = getattr(Matcher, method), [0]

    def failing(matcher: Matcher, *given: int) -> object:
        if matcher.remaining == remaining:
            asked[0] += 1
            if asked[0] == victim + 1:
                raise CompileBudgetError("the step costs too much")
        return whole(matcher, *given)

    monkeypatch.setattr(Matcher, method, failing)

    @sgl.function
    def write(s: ProgramState) -> None:
        forks = s.fork(3)
        forks += "the license"
        forks += sgl.gen("x", 20, regex="[ab]{12}", temperature=0, healing=False)
        forks.join(on_error="collect")

    state = write.run(backend=service, timeout_s=PATIENCE_S)
    assert state.outcome == sgl.Outcome("ok")
    texts = [value for value in state["x"] if isinstance(value, str)]
    num_failed = 1 if asked[0] > victim else 0
    assert num_failed or (method == "whole_mask" and victim), "one mask is enough for all of them"
    assert len(texts) == 3 - num_failed
    assert len(set(texts)) == 1
    service.flush_cache()  # behind the step in which the run has ended
    service.check_idle()


@pytest.mark.parametrize("num_tokens", range(8, 14))
def test_a_run_that_fails_beside_its_equals_does_not_hold_them_up(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, num_tokens: int
) -> None:
    """Also in the very step in which their output ends: it follows, and takes no token any more."""
    service = make_service()
    whole, forward, begin = Matcher.whole_mask, service.executor.forward, threading.Event()

    def failing(matcher: Matcher) -> object:
        if matcher.remaining == 60 - num_tokens:
            raise CompileBudgetError("the step costs too much")
        return whole(matcher)

    def waiting(batch: Batch) -> list[int]:
        assert begin.wait(PATIENCE_S)
        return forward(batch)

    monkeypatch.setattr(Matcher, "whole_mask", failing)
    monkeypatch.setattr(service.executor, "forward", waiting)

    @sgl.function
    def write(s: ProgramState, *, fails: bool) -> None:
        forks = s.fork(1 + fails)
        forks[0].append("a" + sgl.gen("x", 20, regex="[ab]{12}", temperature=0, healing=False))
        if fails:
            forks[1].append("a" + sgl.gen("y", 60, regex="[cd]{50}", temperature=0, healing=False))
        forks.join()

    states = [write.run(fails=fails, backend=service, stream=True) for fails in (False, True)]
    await_that(lambda: service._thread._inbox.qsize() > 0 or service.engine.programs.num_runs == 2)
    begin.set()
    errors = [state.error() for state in states]
    assert errors[0] is None
    assert isinstance(errors[1], sgl.ProgramError)
    assert isinstance(errors[1].__cause__, CompileBudgetError)
    service.flush_cache()  # behind the step that has failed the run
    service.check_idle()


def test_rows_of_one_document_follow_each_other_while_it_is_cached(
    make_service: MakeService,
) -> None:
    @sgl.function
    def ask(s: ProgramState, question: str, document: str) -> None:
        s += document + question + sgl.gen("x", 4, ignore_eos=True)

    documents = [f"{n} " + "the license of the work " * 20 for n in range(6)]
    rows = [{"question": str(q), "document": each} for q in range(5) for each in documents]
    computed = []
    for lazily in (False, True):
        service = make_service(num_pages=24, max_running=2, max_in_flight=4)  # two documents
        if lazily:
            list(ask.run_batch(rows, backend=service, generator_style=True, seed=1))
        else:
            ask.run_batch(rows, backend=service, seed=1)
        computed.append(service.step_stats.computed_tokens)
    assert computed[0] * 2 < computed[1]


def test_who_follows_holds_no_row_that_its_leader_needs(make_service: MakeService) -> None:
    """The one that led comes to the next gen behind the one that followed, and follows then."""
    service = make_service(max_running=1)

    @sgl.function
    def write(s: ProgramState) -> None:
        s += "the license" + sgl.gen("x", 9, temperature=0.0)
        s += " and the work" + sgl.gen("y", 9, temperature=0.0)

    first, second = write.run_batch([{}, {}], backend=service)
    assert first.error() is None
    assert first.text() == second.text()
    service.check_idle()


@pytest.mark.parametrize("policy", ["lpm", "sjf"])
@pytest.mark.parametrize("step", range(5))
def test_no_branch_of_a_run_that_is_over_takes_the_place_of_another(
    tokenizer: Tokenizer, policy: str, step: int
) -> None:
    with HashService(tokenizer, num_pages=60, page_size=4, policy=policy) as service:
        programs, engine = service.engine.programs, service.engine
        greedy = Sampling(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)

        def begin(run: Run) -> Run:
            run.close()
            programs.start(run, {})
            return run

        def new_run() -> Run:
            return Run(template=service.chat_template, defaults=DEFAULT_SAMPLING, seed=7)

        over, other = new_run(), new_run()
        over.extend([Text(0, ROOT, None, "the work"), Fork(1, ROOT, None, (1, 2))])
        over.extend([Gen(1 + branch, branch, None, "x", greedy) for branch in (1, 2)])
        other.extend([Text(0, ROOT, None, "the work"), Gen(1, ROOT, None, "x", greedy)])
        begin(over)
        engine.step()
        begin(other)
        for _ in range(step):
            engine.step()
        over.cancel()
        programs.wake(over, {})
        while engine.step():
            pass
        assert other.outcome is not None
        assert other.outcome.error is None
        service.check_idle()
