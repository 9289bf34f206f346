"""Several backends as one: runs survive the death, the fullness and the slowness of some."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, Provider, RateLimit, Router, gen, select
from sgdsl.backends.lanes import Lane, Lanes, Later
from sgdsl.backends.policy import Backoff, Breaker
from sgdsl.backends.script import Request
from tests.patience import PATIENCE_S
from tests.sgdsl.naive import TEMPLATE, Step, perform, programs, reply
from tests.sgdsl.providers.fake import Provider as Endpoint, refusal

FAST = Backoff(base_s=0.001, max_s=0.002)


@sgl.function
def two(s: ProgramState, q: str) -> None:
    s += q + gen("a") + "," + gen("b") + select("c", ["x", "y"])


def router(*providers: Any, **options: Any) -> Router:
    return Router(providers, **{"backoff": FAST, **options})


def counting(answer: Callable[[Request, int], Any]) -> tuple[MockBackend, list[Request]]:
    """A mock that answers by the request and how many came before."""
    seen: list[Request] = []

    def script(request: Request) -> Any:
        seen.append(request)
        return answer(request, len(seen) - 1)

    return MockBackend(script), seen


def named(name: str) -> tuple[MockBackend, list[Request]]:
    return counting(lambda request, _: f"{name}.{request.name}")


def failing(error: Exception | None = None) -> tuple[MockBackend, list[Request]]:
    broken = error or sgl.BackendError("out of order")
    return counting(lambda request, _: broken)


def outcome(state: ProgramState) -> str:
    assert state.outcome is not None
    return state.outcome.status


def test_the_first_provider_is_asked_as_long_as_it_has_room() -> None:
    (local, _), (remote, asked) = named("local"), named("remote")
    with router(local, remote) as both:
        states = two.run_batch([("q",)] * 5, backend=both)
    assert {state["a"] for state in states} == {"local.a"}
    assert asked == []
    assert both.max_in_flight == 512


def test_when_it_is_full_the_next_one_helps_and_the_rest_waits() -> None:
    local = MockBackend({"a": "local"}, latency_s=0.01)
    remote = MockBackend({"a": "remote"}, latency_s=0.01)
    with router(Provider(local, max_in_flight=1), Provider(remote, max_in_flight=1)) as both:
        states = two.run_batch([("q",)] * 8, backend=both)
    assert [outcome(state) for state in states] == ["ok"] * 8
    assert {state["a"] for state in states} == {"local", "remote"}
    local.close()
    remote.close()


def test_long_inputs_go_where_there_is_room_for_them() -> None:
    (local, _), (remote, _) = named("local"), named("remote")
    with router(Provider(local, max_input_tokens=10), remote) as both:
        assert two.run("short", backend=both)["a"] == "local.a"
        assert two.run("long " * 20, backend=both)["a"] == "remote.a"
    with router(Provider(local, max_input_tokens=10)) as alone:
        error = two.run("long " * 20, backend=alone).error()
        assert "no provider takes an input of about 25 tokens" in str(error)


def test_a_prompt_that_turns_out_too_long_goes_to_another() -> None:
    class TooLong(sgl.UsageError):
        too_long = True

    (local, asked), (remote, _) = failing(TooLong("no room")), named("remote")
    with router(local, remote) as both:
        assert two.run("q", backend=both)["a"] == "remote.a"
    assert len(asked) == 1
    with router(local) as alone:
        assert "no room" in str(two.run("q", backend=alone).error())


def test_a_job_survives_a_provider_that_dies_and_nothing_is_asked_twice() -> None:
    lock = threading.Lock()
    num_left = 40

    def until_it_dies(request: Request, _: int) -> Any:
        nonlocal num_left
        with lock:
            num_left -= 1
            if num_left < 0:
                raise sgl.BackendError("the engine died")
        return f"local.{request.name}"

    (local, _), (remote, asked) = counting(until_it_dies), named("remote")
    with router(local, remote) as both:
        states = two.run_batch([(f"q{i}:",) for i in range(50)], backend=both)
    assert [outcome(state) for state in states] == ["ok"] * 50
    texts = [state.text().split(":", 1)[1] for state in states]
    kept = [text for text in texts if text.startswith("local.a,")]
    assert sum(text.count("local.") for text in texts) == 40
    assert kept and any(text.startswith("remote.a,") for text in texts)
    assert all(text.endswith("remote.bx") for text in texts if "remote.b" in text)
    assert len(asked) == 100 - 40


def test_what_was_finished_is_kept_at_a_graph_break_too() -> None:
    def dies_at_b(request: Request, _: int) -> Any:
        return sgl.BackendError("died") if request.name == "b" else "1"

    (local, _), (remote, asked) = counting(dies_at_b), named("remote")

    @sgl.function
    def reads(s: ProgramState) -> str:
        s += "Q" + gen("a") + select("c", ["x", "y"])
        first = s["a"] + s["c"]
        with s.user():
            s += "!" + gen("b")
        return str(first + s["b"])

    with router(local, remote) as both:
        assert reads.run(backend=both).ret_value == "1xremote.b"
    assert [request.prompt for request in asked] == ["Q1xUSER:!"]


class Dying(MockBackend):
    """Dies after it has streamed some words."""

    def __init__(self, text: str, num_words: int, **options: Any) -> None:
        self._num_left = num_words
        super().__init__({"a": text}, stepwise=True, **options)

    def _write(self, drive: Any, branch_id: int) -> bool:
        moved = super()._write(drive, branch_id)
        self._num_left -= 1
        if self._num_left == 0:
            self.die("gone")
        return moved


@sgl.function
def count(s: ProgramState, **options: Any) -> None:
    s += "Count:" + gen("a", **options)


def test_a_stream_goes_on_where_it_was_cut_off() -> None:
    asked: list[Request] = []

    def goes_on(request: Request) -> str:
        asked.append(request)
        return " and more"

    with router(Dying(" one two three", 2), MockBackend({"a": goes_on})) as both:
        state = count.run(backend=both, stream=True)
        assert "".join(state.text_iter("a")) == " one two and more"
        assert state.outcome == sgl.Outcome("ok")
    assert asked[0].prompt == "Count: one two"
    assert asked[0].sampling.max_tokens == 128 - 2


@pytest.mark.parametrize(("second", "ends"), [("12 34 56", "ok"), ("99 99 99", "failed")])
def test_what_cannot_be_gone_on_with_must_come_to_the_same(second: str, ends: str) -> None:
    remote = MockBackend({"a": second}, stepwise=True)
    with router(Dying("12 34 56", 1), remote) as both:
        state = count.run(backend=both, stream=True, args={"regex": "[0-9 ]{8}"})
        if ends == "ok":
            assert "".join(state.text_iter("a")) == second
        else:
            with pytest.raises(sgl.ProgramError, match="which cannot be taken back"):
                "".join(state.text_iter("a"))
        assert outcome(state) == ends
    remote.close()


def test_a_failure_of_the_programs_own_is_not_moved() -> None:
    for error in (sgl.UsageError("wrong"), sgl.ProviderError("bad request", status=400)):
        (local, _), (remote, asked) = failing(error), named("remote")
        with router(local, remote) as both:
            state = two.run("q", backend=both)
        assert str(error) in str(state.error())
        assert "gen a" in str(state.error())
        assert asked == []


def test_where_everybody_fails_it_is_given_up_with_all_reasons() -> None:
    (one, a), (other, b) = failing(sgl.BackendError("no power")), failing()
    with router(Provider(one, "one"), Provider(other, "other"), max_attempts=4) as both:
        error = two.run("q", backend=both).error()
    assert isinstance(error, sgl.ProgramError)
    assert "gave up after 4 failures: one: no power; other: out of order; one:" in str(error)
    assert "gen a" in str(error) and __file__ in str(error)
    assert isinstance(error.__cause__, sgl.BackendError)
    assert len(a) + len(b) == 4


def test_what_fails_for_a_while_is_tried_again_by_the_only_one() -> None:
    busy = sgl.ProviderError("slow down", status=429, retryable=True, retry_after_s=0.001)
    backend, asked = counting(lambda request, count: busy if count < 3 else "yes")
    with router(backend) as alone:
        state = two.run("q", backend=alone)
    assert (state["a"], state["b"]) == ("yes", "yes")
    assert len(asked) == 5


def test_a_router_that_cannot_decide_fails_the_runs_and_goes_on() -> None:
    class Undecided(Breaker):
        broken = True

        def allows(self, now_s: float) -> bool:
            if self.broken:
                raise ArithmeticError("no clock")
            return super().allows(now_s)

    breaker = Undecided()
    with router(Provider(MockBackend(default="x"), breaker=breaker)) as alone:
        assert "no clock" in str(two.run("q", backend=alone, timeout_s=PATIENCE_S).error())
        breaker.broken = False
        assert two.run("q", backend=alone)["a"] == "x"


def test_who_asks_for_absurd_patience_is_asked_again_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sgdsl.backends.router.MAX_RETRY_AFTER_S", 0.001)
    busy = sgl.ProviderError("in 1e300 s", status=429, retryable=True, retry_after_s=1e300)
    backend, asked = counting(lambda request, count: busy if count < 3 else "yes")
    with router(backend) as alone:
        assert two.run("q", backend=alone, timeout_s=PATIENCE_S)["a"] == "yes"
    assert len(asked) == 5


def test_an_answer_in_time_is_asked_for_and_else_another_provider() -> None:
    stalls = MockBackend({"a": sgl.STALL})
    remote, _ = named("remote")
    with router(Provider(stalls, max_timeout_s=0.02, min_timeout_s=0.01), remote) as both:
        assert two.run("q", backend=both)["a"] == "remote.a"
        assert not stalls._drives, "it was told to forget the run"
    stalls.close()


def test_a_broken_provider_is_left_alone_until_it_has_cooled_down() -> None:
    (local, asked), (remote, _) = failing(), named("remote")
    breaker = Breaker(threshold=2, cooldown_s=3600)
    with router(Provider(local, "local", breaker=breaker), remote) as both:
        states = [two.run("q", backend=both) for _ in range(10)]
        assert both.server_info()["local"]["breaker"] == "open"  # type: ignore[index]
    assert {state["a"] for state in states} == {"remote.a"}
    assert len(asked) == 2


def test_after_the_cooldown_one_trial_shows_that_it_is_well() -> None:
    broken = True

    def heals(request: Request, _: int) -> Any:
        return sgl.BackendError("down") if broken else "local"

    (local, _), (remote, _) = counting(heals), named("remote")
    breaker = Breaker(threshold=1, cooldown_s=0.001)
    with router(Provider(local, breaker=breaker), remote) as both:
        two.run("q", backend=both)
        broken = False
        until = time.monotonic() + PATIENCE_S
        while two.run("q", backend=both)["a"] != "local" and time.monotonic() < until:
            pass
        assert breaker.state(0) == "closed"


def test_a_rate_is_kept_and_nobody_is_lost() -> None:
    times: list[float] = []

    def note(request: Request, _: int) -> str:
        times.append(time.monotonic())
        return "yes"

    backend, _ = counting(note)
    limit = RateLimit(requests=4, window_s=0.05)

    @sgl.function
    def one(s: ProgramState) -> None:
        s += gen("a")

    with router(Provider(backend, rate=limit)) as limited:
        states = one.run_batch([()] * 12, backend=limited)
    assert [outcome(state) for state in states] == ["ok"] * 12
    assert len(times) == 12
    for first, fifth in zip(times, times[4:], strict=False):
        assert fifth - first > 0.04, "never more than four in a window"


def test_a_provider_in_its_own_words_and_another_in_messages() -> None:
    endpoint = Endpoint(reply=lambda path, body: refusal(500, "down"))

    @sgl.function
    def talk(s: ProgramState) -> None:
        s += sgl.user("Hi") + sgl.assistant(gen("a"))

    with (
        sgl.OpenAI("m", "http://p.test/v1", transport=endpoint, max_retries=0) as remote,
        router(remote, MockBackend({"a": "yes"}, chat_template=TEMPLATE)) as both,
    ):
        state = talk.run(backend=both)
    assert state["a"] == "yes"
    assert both.chat_template is TEMPLATE
    assert endpoint.bodies[0]["messages"][-1] == {"role": "user", "content": "Hi"}


def test_close_and_cancel_end_the_runs() -> None:
    stalls = MockBackend({"a": sgl.STALL})
    both = router(stalls)
    state = two.run("q", backend=both, stream=True)
    until = time.monotonic() + PATIENCE_S
    while not stalls._drives and time.monotonic() < until:
        time.sleep(0.001)
    both.close()
    assert "the router was closed" in str(state.error())
    assert "the router was closed" in str(two.run("q", backend=both).error())

    with router(stalls) as again:

        @sgl.function
        def raises(s: ProgramState) -> None:
            s += gen("a")
            fork = s.fork(1)
            raise KeyError(str(len(fork)))

        with pytest.raises(KeyError):
            raises.run(backend=again)
        assert not again._journeys


def test_what_is_no_backend_is_refused() -> None:
    with pytest.raises(sgl.UsageError, match=r"providers=\[\] is not allowed"):
        Router([])
    with pytest.raises(sgl.UsageError, match="5 is no backend"):
        Router([5])  # type: ignore[list-item]


class Flaky(MockBackend):
    """Answers like the reference, or fails, as its dice fall."""

    def __init__(self, seed: int, failures: float) -> None:
        dice = random.Random(seed)

        def script(request: Request) -> Any:
            if dice.random() < failures:
                raise sgl.BackendError("bad luck")
            return reply(request)

        super().__init__(script, chat_template=TEMPLATE)


@settings(max_examples=60)
@given(programs(), st.integers(0, 2**32), st.sampled_from([0.1, 0.4]))
def test_random_programs_come_to_the_same_whatever_fails_on_the_way(
    steps: tuple[Step, ...], seed: int, failures: float
) -> None:
    def run(backend: Any) -> Any:
        seen: list[Any] = []
        state = sgl.function(lambda s: perform(s, steps, seen)).run(backend=backend, seed=1)
        return outcome(state), state.text(), state.messages(), seen

    expected = run(MockBackend(reply, chat_template=TEMPLATE))
    well = Breaker(threshold=10**9)
    flaky = [Provider(Flaky(seed + i, failures), breaker=well) for i in range(2)]
    patient = {"max_attempts": 200, "backoff": Backoff(base_s=0.0)}
    with router(*flaky, **patient) as both:
        assert run(both) == expected
        assert all(lane.num_in_flight == 0 for lane in both._lanes)
    with (
        router(*flaky, max_attempts=1) as weak,
        router(Provider(weak, breaker=well), flaky[1], **patient) as nested,
    ):
        assert run(nested) == expected


lanes = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([None, 5, 50]), st.integers(0, 9)),
    min_size=1,
    max_size=4,
)


@given(lanes, st.integers(0, 60), st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_the_lane_that_is_chosen_is_the_first_that_may_be(
    made: list[tuple[bool, bool, int | None, int]],
    tokens: int,
    failed: set[int],
    barred: set[int],
) -> None:
    def lane(index: int, full: bool, broken: bool, most: int | None, reopens: int) -> Lane:
        breaker = Breaker(threshold=1, cooldown_s=10.0 + reopens)
        if broken:
            breaker.fail(0.0)
        made = Lane(
            Provider(MockBackend(), max_in_flight=1, max_input_tokens=most, breaker=breaker), index
        )
        made.num_in_flight = int(full)
        return made

    each = [lane(index, *features) for index, features in enumerate(made)]
    able = [
        index
        for index, (_, _, most, _) in enumerate(made)
        if index not in barred and (most is None or tokens <= most)
    ]
    free = [i for i in able if not made[i][0] and not made[i][1]]
    chosen = Lanes(each).choose(5.0, input_tokens=tokens, failed=failed, barred=barred)
    assert Lanes(each).any_for(tokens, barred) == bool(able)
    if free:
        assert isinstance(chosen, Lane)
        assert chosen.index == min(free, key=lambda i: (i in failed, i))
    else:
        assert isinstance(chosen, Later)
        broken = [10.0 + made[i][3] for i in able if made[i][1]]
        only_broken = bool(able) and len(broken) == len(able)
        assert chosen.at_s == (min(broken) if only_broken else None)
