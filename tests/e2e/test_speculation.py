"""Speculation changes how many steps an output takes, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray

import sgdsl as sgl
from grammars import CompileBudgetError, Matcher
from runtime import Runtime
from runtime.batch import Batch
from runtime.sampling.request import NO_TOKEN, Sampled, SampleRequest
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramState
from tests import reference
from tests.e2e.conftest import HashService, MakeService
from tests.e2e.test_random_programs import check_batch, configs
from tests.fakes import ParrotExecutor, extend_hash, parrot_logits
from tests.tiny_llama import VOCAB_SIZE

RECORD = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "license": {"enum": ["the work", "the licence", None]},
        "contributors": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "is_derivative": {"const": True},
    },
    "required": ["name", "license", "contributors", "is_derivative"],
}
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"stop": ["e", "th"]},
    {"stop_regex": "[a-z]{3}n"},
    {"stop_token_ids": [VOCAB_SIZE // 2 + 3, 9]},
    {"min_tokens": 9, "stop": ["a"]},
    {"ignore_eos": True},
    {"return_logprob": True, "top_logprobs_num": 2},
    {"n": 3},
    {"json_schema": RECORD, "max_tokens": 90},
    {"json_schema": RECORD, "max_tokens": 60, "return_logprob": True, "top_logprobs_num": 1},
    {"regex": "(ab|c){2,9}( the)?", "stop": ["ca"]},
    {"regex": r"\d+(\.\d\d)?"},
    {"regex": "the (license|licensed work)"},
    {"regex": "[a-f ]*", "min_tokens": 5},
    {"regex": "[^n]+", "ignore_eos": True, "return_logprob": True},
)
STEM = "the license of the work is the license of "


@sgl.function
def write(s: ProgramState, kind: dict[str, Any], stem: str, heat: float) -> None:
    said = {"max_tokens": 24, **kind}
    s += stem + sgl.gen("x", said.pop("max_tokens"), temperature=heat, **said)
    s += " and the work" + sgl.gen("y", 6, temperature=heat)


rows = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "stem": st.sampled_from([STEM, STEM * 2, "a", "no"]),
        "heat": st.sampled_from([0.0, 0.0, 0.7, 1.5]),
    }
)


LEFT_OUT = ("id", "e2e_latency", "cached_tokens")


def told(state: ProgramState) -> Any:
    """All that a row says of itself, but for times and what the cache held."""
    infos = [_without(state.get_meta_info(name)) for name in ("x", "y")]
    return state.text(), state["x"], state["y"], infos


def _without(info: Any) -> Any:
    if isinstance(info, dict):
        return {key: _without(value) for key, value in info.items() if key not in LEFT_OUT}
    return [_without(each) for each in info] if isinstance(info, list) else info


class Checking(HashService):
    """Looks at all pages in every step: each has one owner, and what is cached is what it says."""

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        super().__init__(tokenizer, model=ParrotExecutor, **options)
        forward = self.executor.forward

        def checking(batch: Batch) -> list[int]:
            scheduler, cache = self.engine.scheduler, self.engine.scheduler.cache
            cache.check_integrity()
            owned = Counter(
                page for each in scheduler._running for page in each.pages[len(each.nodes) :]
            )
            assert not owned or max(owned.values()) == 1
            assert cache.num_free + cache.num_cached + len(owned) == cache.num_pages
            self._check_cached()
            return forward(batch)

        self.executor.forward = checking  # type: ignore[method-assign]

    def _check_cached(self) -> None:
        cache = self.engine.scheduler.cache
        pending = [(node, 0) for node in cache.root.children.values()]
        while pending:
            node, prefix = pending.pop()
            for token in node.key:
                prefix = extend_hash(prefix, token)
            at = node.source * cache.page_size + len(node.key) - 1  # in the pool, or on the host
            assert self.executor.slots[at] == prefix, "what was guessed wrong is never cached"
            pending += [(child, prefix) for child in node.children.values()]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batch=st.lists(rows, min_size=1, max_size=8),
    config=configs,
    sizes=st.tuples(st.sampled_from([320, 400, 4000]), st.none() | st.integers(30, 60)),
    seed=st.integers(0, 1000),
)
def test_rows_say_the_same_of_themselves(
    tokenizer: Tokenizer,
    batch: list[dict[str, Any]],
    config: dict[str, Any],
    sizes: tuple[int, int | None],
    seed: int,
) -> None:
    """Texts, log-probabilities, counts and reasons; where pages and memory run out, too."""
    num_slots, memory = sizes
    with HashService(tokenizer, num_pages=400, model=ParrotExecutor, speculation="off") as plain:
        expected = [told(s) for s in write.run_batch(batch, backend=plain, seed=seed)]
        assert plain.step_stats.drafted_tokens == 0
    num_pages = num_slots // config["page_size"]
    with Checking(tokenizer, num_pages=num_pages, **config) as service:
        service.executor.memory = memory
        found = [told(s) for s in write.run_batch(batch, backend=service, seed=seed)]
        service.check_idle()
    assert found == expected


def parrot_model(tokens: list[int]) -> NDArray[np.float64]:
    return parrot_logits(tokens, VOCAB_SIZE)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    batch=st.lists(reference.programs, min_size=1, max_size=6),
    config=configs,
    num_slots=st.sampled_from([256, 400, 4000]),
    seed=st.integers(0, 1000),
)
def test_random_programs_whose_guesses_come_true_are_what_they_are_one_by_one(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    num_pages = num_slots // config["page_size"]
    with Checking(tokenizer, num_pages=num_pages, **config) as service:
        check_batch(service, tokenizer, batch, seed=seed, model=parrot_model)


@pytest.fixture
def parrot(tokenizer: Tokenizer) -> Iterator[HashService]:
    with HashService(tokenizer, num_pages=200, model=ParrotExecutor) as service:
        yield service


def test_guesses_that_come_true_save_steps(parrot: HashService) -> None:
    row: dict[str, Any] = {
        "kind": {"ignore_eos": True, "max_tokens": 40},
        "stem": STEM,
        "heat": 0.0,
    }
    write.run(**row, backend=parrot)
    stats = parrot.step_stats
    assert stats.verified_tokens >= 12
    assert stats.num_steps <= 46 - stats.verified_tokens + 1
    assert stats.drafted_tokens > stats.verified_tokens, "not all of them do"


def test_what_the_grammar_forces_takes_few_steps(make_service: MakeService) -> None:
    """The hash model knows no text: only where its tokens are split it does as it likes."""
    service = make_service()
    pattern = "(a|b) the contributor of the licensed work (c|d) and the contributor of (e|f)"

    @sgl.function
    def ask(s: ProgramState, index: int) -> None:
        s += f"{index}:" + sgl.gen("x", 80, regex=pattern, temperature=0.0, healing=False)

    states = ask.run_batch([{"index": index} for index in range(6)], backend=service)
    num_tokens = sum(state.get_meta_info("x")["completion_tokens"] for state in states)
    assert service.step_stats.verified_tokens > 0
    assert service.step_stats.num_steps < num_tokens / 6


def test_a_token_that_is_forced_is_written_without_a_step(make_service: MakeService) -> None:
    """Also all of an output, which then takes none; and not where its log-probability is asked."""
    service = make_service(speculation="off")

    @sgl.function
    def ask(s: ProgramState, **said: Any) -> None:
        s += "x" + sgl.gen("x", 8, regex="\u20ac\u20ac", temperature=0.0, healing=False, **said)

    forced = ask.run(backend=service)
    asked = ask.run(return_logprob=True, backend=service)
    assert forced["x"] == asked["x"] == "\u20ac\u20ac"
    for state in (forced, asked):
        assert state.get_meta_info("x")["forced_tokens"] == 6
        assert state.get_meta_info("x")["completion_tokens"] == 6
    assert len(asked.get_meta_info("x")["output_token_logprobs"]) == 6
    assert service.step_stats.num_steps == 6
    service.check_idle()


def test_equals_of_a_row_that_guesses_get_its_tokens(tokenizer: Tokenizer) -> None:
    batch: list[dict[str, Any]] = [{"kind": KINDS[8], "stem": STEM, "heat": 0.0}] * 5
    with HashService(tokenizer, num_pages=200, model=ParrotExecutor) as service:
        found = [told(state) for state in write.run_batch(batch, backend=service, seed=1)]
        assert service.step_stats.max_running == 1
        assert service.step_stats.verified_tokens > 0
        assert service.engine.programs.shared.num_shared == 8
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("every", [2, 3, 7])
def test_a_mask_that_cannot_be_made_behind_a_guess_ends_the_draft(
    parrot: HashService, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Whatever a draft costs its row: it never fails for it."""
    row: dict[str, Any] = {"kind": KINDS[8], "stem": STEM, "heat": 0.0}
    with monkeypatch.context() as patched:
        expected = told(write.run(**row, backend=parrot, seed=1))
        parrot.flush_cache()
        whole, asked = Matcher.whole_mask, [0]

        def failing(matcher: Matcher) -> object:
            forked = matcher is not parrot_matcher(parrot)
            asked[0] += forked
            if forked and asked[0] % every == 0:
                raise CompileBudgetError("the step costs too much")
            return whole(matcher)

        patched.setattr(Matcher, "whole_mask", failing)
        assert told(write.run(**row, backend=parrot, seed=1)) == expected
        assert asked[0] >= every


def parrot_matcher(service: HashService) -> Matcher | None:
    """That of the only row that there is."""
    for lines in service.engine.programs.roster.lines.values():
        for line in lines.values():
            if line.writes is not None:
                return line.generation.matcher
    return None


def test_a_row_without_a_token_behind_its_draft_fails_where_it_gets_there(
    parrot: HashService,
) -> None:
    row: dict[str, Any] = {"kind": {"ignore_eos": True}, "stem": STEM, "heat": 0.0}
    sample, drawn = parrot.executor.sample, [0]

    def failing(hidden: list[int], batch: Batch, request: SampleRequest) -> Sampled:
        found = sample(hidden, batch, request)
        tokens = list(found.tokens)
        if batch.sampled[0].draft and drawn[0] > 10:
            tokens[-1] = NO_TOKEN
        drawn[0] += len(tokens)
        return Sampled(tokens, found.logprobs, found.scores)

    parrot.executor.sample = failing  # type: ignore[method-assign]
    error = write.run(**row, backend=parrot).error()
    assert error is not None
    assert "no token to draw" in str(error)
    parrot.check_idle()


SAMPLED: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.2, "top_k": 20, "min_p": 0.01},
    {"temperature": 0.0, "frequency_penalty": 0.6, "presence_penalty": 0.4},
    {"temperature": 0.9, "frequency_penalty": 0.9},
    {"temperature": 0.7, "return_logprob": True, "top_logprobs_num": 3},
)


@sgl.function
def sampled(s: ProgramState, said: dict[str, Any], schema: bool) -> None:
    asked: dict[str, Any] = (
        {"json_schema": RECORD, "max_tokens": 90} if schema else {"max_tokens": 40}
    )
    s += STEM * 2 + sgl.gen("x", **asked, **said)


def test_a_real_model_draws_the_same_tokens_with_and_without(tiny_llama_path: Path) -> None:
    """Greedy and sampled, with penalties on what was drafted, too; seeds decide, not steps."""
    batch: list[dict[str, Any]] = [
        {"said": said, "schema": schema} for said in SAMPLED for schema in (False, True)
    ] * 2
    found = []
    for speculation in ("off", "on", "auto"):
        with Runtime(
            tiny_llama_path, kv_bytes=2**22, share_outputs=False, speculation=speculation
        ) as runtime:
            states = sampled.run_batch(batch, backend=runtime, seed=3)
            found.append([(state.text(), state.error()) for state in states])
            num_verified = runtime.step_stats.verified_tokens
            assert (num_verified > 0) or speculation != "on"
            logprobs = [
                [logprob for logprob, *_ in state.get_meta_info("x")["output_token_logprobs"]]
                for state in states
                if "output_token_logprobs" in state.get_meta_info("x")
            ]
            if speculation == "off":
                expected = logprobs
        for mine, others in zip(logprobs, expected, strict=True):
            assert mine == pytest.approx(others, abs=1e-4)
    assert found[1] == found[0]
    assert found[2] == found[0]
