"""The simulator: nothing is lost, and what it counts is what is there."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from rich.console import Console

from benchmarks import simulate as command
from benchmarks.simulate import Setting, simulate
from benchmarks.simulation.calibration import KNOTS, Calibrated, features, fit
from benchmarks.simulation.costs import ACCELERATORS, NETWORKS, Roofline, Work, work_of
from benchmarks.simulation.fleet import Fleet
from benchmarks.simulation.replica import Replica, Request
from benchmarks.simulation.routing import ROUTERS
from benchmarks.simulation.symbols import NUM_SYMBOLS, SymbolTokenizer, random_text
from benchmarks.simulation.traces import TRACES, Session, Turn, sessions
from benchmarks.simulation.validation import Case, answer, validate
from runtime.batch import Grant, build_batch
from runtime.config import RuntimeConfig
from runtime.sequence import Sequence

PAGE = 4


class OneSecond:
    """A machine of which every step takes a second."""

    pool_tokens = 1 << 14

    def layers_s(self, work: Work) -> float:
        return 1.0

    def head_s(self, num_rows: int, num_columns: int = 0) -> float:
        return 0.0


def run(coming: list[Session], *, replicas: int = 1, router: str = "in-turn") -> list[Request]:
    """On machines whose steps take a second, and which take four requests at once."""
    config = RuntimeConfig(
        page_size=2, max_running=4, token_budget=64, share_outputs=False, speculation="off"
    )
    ended: list[Request] = []

    def make(index: int, finished: object) -> Replica:
        return Replica(
            config,
            OneSecond(),
            pool_tokens=OneSecond.pool_tokens,
            grain=1,
            seed=index,
            finished=finished,  # type: ignore[arg-type]
        )

    Fleet(replicas, make, make_router=ROUTERS[router], told=ended.append).run(coming)
    return ended


rows = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=6)


@given(rows, st.integers(0, 3))
def test_the_work_of_a_batch_is_what_a_count_over_its_tokens_says(
    lens: list[tuple[int, int]], num_shared: int
) -> None:
    lens = [(max(there, num_shared * PAGE), new) for there, new in lens]
    following, grants = itertools.count(num_shared), []
    for there, new in lens:
        sequence = Sequence([0] * (there + new))
        num_own = -(-(there + new) // PAGE) - num_shared
        sequence.pages = [*range(num_shared), *itertools.islice(following, num_own)]
        grants.append(Grant(sequence, there, new))
    work = work_of(build_batch(grants, PAGE))
    decodes = [there + 1 for there, new in lens if new == 1]
    readers: dict[int, int] = {}
    for grant in grants:
        if grant.num_tokens == 1:
            for position in range(grant.end):
                slot = grant.sequence.pages[position // PAGE] * PAGE + position % PAGE
                readers[slot] = readers.get(slot, 0) + 1
    assert work.num_tokens == sum(new for _, new in lens)
    assert work.num_decodes == len(decodes)
    assert work.own_slots == sum(count == 1 for count in readers.values())
    assert work.shared_slots == sum(count > 1 for count in readers.values())
    assert work.pairs == sum(
        position + 1 for there, new in lens if new > 1 for position in range(there, there + new)
    )


def test_a_request_alone_takes_a_step_for_its_prompt_and_one_for_each_further_token() -> None:
    (request,) = run([Session(5.0, "", [Turn(random_text(np.random.default_rng(0), 40), 7)])])
    assert (request.arrived_s, request.first_s, request.finished_s) == (5.0, 6.0, 12.0)
    assert len(request.answer) == 7


def test_a_turn_comes_after_its_pause_with_all_that_was_said_before() -> None:
    turns = [Turn("ab", 3), Turn("cd", 2, pause_s=10.0)]
    first, second = run([Session(0.0, "xy", turns)])
    assert second.arrived_s == first.finished_s + 10.0
    assert second.prompt == "xyab" + first.answer + "cd"


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(TRACES)),
    st.sampled_from(sorted(ROUTERS)),
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from([None, 5.0]),
)
def test_every_request_ends_in_order_and_leaves_nothing(
    trace: str, router: str, num_requests: int, replicas: int, rate: float | None
) -> None:
    coming = list(sessions(trace, num_requests=num_requests, rate=rate, seed=1, grain=16))
    ended = run(coming, replicas=replicas, router=router)
    assert len(ended) == num_requests
    assert sorted(len(r.answer) for r in ended) == sorted(
        turn.num_output for session in coming for turn in session.turns
    )
    assert all(r.arrived_s < r.first_s <= r.finished_s for r in ended)
    assert [r.finished_s for r in ended] == sorted(r.finished_s for r in ended) or replicas > 1


def test_the_same_seed_is_the_same_simulation() -> None:
    setting = Setting(requests=120, replicas=3, rate=200.0, seed=7)
    assert asdict(simulate(setting)) == asdict(simulate(setting))


@pytest.mark.parametrize("trace", sorted(TRACES))
def test_coarse_tokens_come_to_about_what_single_ones_do(trace: str) -> None:
    def setting(grain: int) -> Setting:
        return Setting(trace=trace, requests=200, replicas=1, rate=20.0, grain=grain, page_size=16)

    fine, coarse = (simulate(setting(grain)) for grain in (1, 8))
    assert coarse.makespan_s == pytest.approx(fine.makespan_s, rel=0.1)
    assert coarse.cache_hit_rate == pytest.approx(fine.cache_hit_rate, abs=0.05)
    assert coarse.itl_p50_s == pytest.approx(fine.itl_p50_s, rel=0.25)


def test_arrivals_come_at_the_rate_that_was_asked_for() -> None:
    coming = list(sessions("few-shot", num_requests=4000, rate=50.0, seed=3, grain=16))
    gaps = np.diff([session.start_s for session in coming])
    assert np.mean(gaps) == pytest.approx(1 / 50.0, rel=0.1)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)  # of a Poisson process


def test_a_roofline_is_bound_by_memory_for_few_tokens_and_by_arithmetic_for_many() -> None:
    network, accelerator = NETWORKS["llama-8b"], ACCELERATORS["h200"]
    assert network.num_linear == 6_979_321_856  # all of Llama 3's 8 billion, without embeddings
    roofline = Roofline(network, accelerator)
    weights_s = 2 * network.num_linear / (accelerator.bytes_per_s * accelerator.traffic)
    one = roofline.layers_s(Work(num_tokens=1, num_decodes=1, own_slots=100))
    assert one == pytest.approx(weights_s + accelerator.step_s, rel=0.01)
    many = roofline.layers_s(Work(num_tokens=8192))
    flops_s = 2 * network.num_linear * 8192 / (accelerator.flops * accelerator.arithmetic)
    assert many == pytest.approx(flops_s + accelerator.step_s, rel=0.01)


def test_the_fit_finds_the_prices_that_steps_were_made_with() -> None:
    generator = np.random.default_rng(0)
    works = [
        Work(int(n), int(d), int(o), int(s), int(p))
        for n, d, o, s, p in generator.integers(1, 512, size=(200, 5))
    ]
    works += [Work(num_tokens=knot) for knot in KNOTS]
    rows = np.array([features(work) for work in works])
    prices = np.asarray(generator.uniform(0.0, 1e-3, size=rows.shape[1]))
    prices[-2] = 0.0
    found = Calibrated(fit(rows, rows @ prices), np.zeros(4), np.zeros(2), pool_tokens=1)
    assert found.weights == pytest.approx(prices, abs=1e-9)
    assert found.layers_s(works[0]) == pytest.approx(float(rows[0] @ prices))


def test_a_router_that_knows_prefixes_finds_more_of_them() -> None:
    def hit_rate(router: str) -> float:
        setting = Setting(
            trace="few-shot",
            requests=600,
            replicas=4,
            rate=300.0,
            router=router,
            pool_tokens=60_000,
        )
        return simulate(setting).cache_hit_rate

    assert hit_rate("prefix") > hit_rate("in-turn") + 0.05


def test_symbols_are_tokens_and_back() -> None:
    tokenizer, text = SymbolTokenizer(), random_text(np.random.default_rng(1), 500)
    tokens = tokenizer.encode(text)
    assert len(tokens) == 500
    assert all(0 <= token < NUM_SYMBOLS for token in tokens)
    assert tokenizer.decode(tokens).decode() == text


def test_the_command_compares_what_is_given_several_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main(["--requests", "60", "--policy", "lpm", "fcfs", "--grain", "16", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [line["policy"] for line in found["results"]] == ["lpm", "fcfs"]
    assert all(line["requests"] == 60 for line in found["results"])


def test_a_replay_takes_the_engine_s_steps_and_a_like_time(roomy_model: Path) -> None:
    documents = [{"document": f"The work number {n} is a licensed thing. " * 3} for n in range(6)]
    given = {"free": Case(answer, documents)}
    (found,) = validate(Console(quiet=True), given, folder=roomy_model).values()
    assert found["predicted_steps"] == pytest.approx(found["measured_steps"], abs=6)
    assert found["predicted_s"] > 0
