"""What a model that knows nothing writes under a constraint, at temperature 1.5 and any budget.

The judges are `jsonschema` and `re.fullmatch`; the budgets start at the least one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import sgdsl as sgl
from grammars import (
    Cfg,
    Choices,
    Compiler,
    Concatenation,
    Constraint,
    GrammarError,
    JsonSchema,
    Regex,
    Repetition,
    TypeOf,
    accepts,
)
from runtime import Runtime
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramState, UsageError
from tests.grammars.strategies import patterns, schemas

EXTRA = (0, 1, 5)
"""Tokens beyond the least budget; twice the least one is tried too."""


@pytest.fixture(scope="module")
def runtime(tiny_llama_path: Path) -> Iterator[Runtime]:
    with Runtime(tiny_llama_path, kv_bytes=1 << 23) as backend:
        yield backend


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> Compiler:
    return Compiler(tokenizer.vocabulary)


@sgl.function
def fill(s: ProgramState, kind: dict[str, Any], max_tokens: int, healing: bool) -> None:
    s += "contributor: "
    s += sgl.gen("out", max_tokens, temperature=1.5, healing=healing, **kind)


def outputs(
    runtime: Runtime, compiler: Compiler, constraint: Constraint, kind: dict[str, Any], *, seed: int
) -> list[str]:
    """Texts at the least budget, a little above it and at twice of it, all from one batch."""
    try:
        least = compiler.compile(constraint).min_tokens
    except GrammarError:
        assume(False)
        raise
    assume(least <= 100)
    budgets = sorted({max(1, least + extra) for extra in (*EXTRA, least)})
    rows = [
        {"kind": kind, "max_tokens": budget, "healing": healing}
        for budget in budgets
        for healing in (False, True)
    ]
    states = fill.run_batch(rows, backend=runtime, seed=seed)
    for row, state in zip(rows, states, strict=True):
        assert state.outcome is not None
        assert state.outcome.status == "ok", state.outcome
        assert state.get_meta_info("out")["finish_reason"]["type"] in ("stop", "length")
        written = compiler.compile(constraint)
        assert written.contains(state["out"]), row
    return [state["out"] for state in states]


slow = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
)


@slow
@given(schema=schemas, seed=st.integers(0, 10**6))
def test_json_is_valid_at_every_budget(
    runtime: Runtime, compiler: Compiler, schema: Any, seed: int
) -> None:
    try:
        constraint = JsonSchema(schema)
    except GrammarError:
        assume(False)
        raise
    checker = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    for text in outputs(runtime, compiler, constraint, {"json_schema": schema}, seed=seed):
        checker.validate(json.loads(text))


@slow
@given(pattern=patterns, seed=st.integers(0, 10**6))
def test_a_regex_matches_whole_at_every_budget(
    runtime: Runtime, compiler: Compiler, pattern: str, seed: int
) -> None:
    for text in outputs(runtime, compiler, Regex(pattern), {"regex": pattern}, seed=seed):
        assert re.fullmatch(pattern, text)


def test_below_the_least_budget_a_row_is_refused_with_both_numbers(runtime: Runtime) -> None:
    state = fill.run(kind={"regex": "[0-9]{12}"}, max_tokens=11, healing=False, backend=runtime)
    error = state.error()
    assert error is not None
    assert isinstance(error.__cause__, UsageError)
    assert "allows 11 tokens" in str(error)
    assert "takes 12" in str(error)


NESTED = """
start: "(" start ")" | "x"
"""
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}
SPACED = JsonSchema(SCHEMA, whitespace="single", property_order="any")
ANY: dict[str, tuple[dict[str, Any], Constraint]] = {
    "json_schema": ({"json_schema": SPACED}, SPACED),
    "schema": ({"constraint": SPACED}, SPACED),
    "choices": ({"constraint": Choices(["Rome", "Paris"])}, Choices(["Rome", "Paris"])),
    "fenced": (
        {"constraint": Concatenation("```\n", SPACED, "\n```")},
        Concatenation("```\n", SPACED, "\n```"),
    ),
    "list": (
        {"constraint": Repetition(Regex("[0-9]"), 2, 4, separator=", ")},
        Repetition(Regex("[0-9]"), 2, 4, separator=", "),
    ),
    "grammar": ({"grammar": NESTED}, Cfg(NESTED)),
}


def test_any_constraint_and_any_grammar_hold_side_by_side(runtime: Runtime) -> None:
    rows = [
        {"kind": kind, "max_tokens": 40, "healing": healing}
        for kind, _ in ANY.values()
        for healing in (False, True)
    ]
    states = fill.run_batch(rows, backend=runtime, seed=3)
    for state, constraint in zip(states, [c for _, c in ANY.values() for _ in "ab"], strict=True):
        assert state.error() is None
        assert accepts(constraint, state["out"])


def test_a_value_is_read_in_the_text_of_a_constraint_that_has_one(runtime: Runtime) -> None:
    kind = {"constraint": TypeOf(list[bool], whitespace="single")}
    state = fill.run(kind=kind, max_tokens=30, healing=True, backend=runtime, seed=1)
    assert isinstance(state["out"], list)
    assert state.text() == "contributor: " + json.dumps(state["out"])


@pytest.mark.parametrize("seed", range(5))
def test_a_stop_ends_a_constrained_output_that_is_complete(runtime: Runtime, seed: int) -> None:
    """Of "123 " the blank is a part, since "123" alone does not satisfy."""
    pattern = r"[0-9]{2,3}[ \n]{1,9}[a-z]?|[0-9]{2}"
    kind = {"regex": pattern, "stop": [" ", "\n"]}
    state = fill.run(kind=kind, max_tokens=30, healing=True, backend=runtime, seed=seed)
    assert re.fullmatch(pattern, state["out"])
    assert state.text() == "contributor: " + state["out"]


@sgl.function
def integer(s: ProgramState) -> None:
    s += "Age: " + sgl.gen("age", 12, regex=sgl.REGEX_INT, stop=[" ", "\n"]) + "."


def test_an_integer_ends_at_the_first_blank(runtime: Runtime) -> None:
    states = integer.run_batch([()] * 40, backend=runtime, seed=1)
    reasons = [state.get_meta_info("age")["finish_reason"] for state in states]
    assert all(re.fullmatch(r"[-+]?[0-9]+", state["age"]) for state in states)
    assert any(reason.get("matched") in (" ", "\n") for reason in reasons)


LINE = r"[^en\n]+"


@sgl.function
def go_on(s: ProgramState, index: int, kind: dict[str, Any]) -> None:
    s += f"The contributor {index} of the work"
    s += sgl.gen("out", 24, temperature=0.0, healing=False, return_logprob=True, **kind)
    s += " is. " + sgl.gen("more", 3, temperature=0.0, healing=False)


def test_a_greedy_output_is_the_free_one_as_far_as_that_satisfies(
    runtime: Runtime, tokenizer: Tokenizer
) -> None:
    rows = [{"index": i, "kind": kind} for i in range(60) for kind in ({}, {"regex": LINE})]
    states = go_on.run_batch(rows, backend=runtime)
    ends = set()
    for free, bound in zip(states[::2], states[1::2], strict=True):
        drawn = [token for _, token, _ in free.get_meta_info("out")["output_token_logprobs"]]
        spelled = [tokenizer.token_bytes[token] for token in drawn]
        end = spelled.index(None) if None in spelled else len(spelled)
        text = b"".join(data for data in spelled[:end] if data).decode("utf-8", "surrogateescape")
        found = re.match(r"[^en\n\udc80-\udcff]+", text)
        if found is None or re.search(rb"[en\n\x80-\xff]", spelled[0] or b""):
            continue  # its first token is not allowed
        assert bound["out"] == found[0]
        assert bound.text().endswith(found[0] + " is. " + bound["more"])
        logprobs = bound.get_meta_info("out")["output_token_logprobs"]
        own = free.get_meta_info("out")["output_token_logprobs"]
        assert logprobs == [
            (pytest.approx(logprob, abs=1e-4), token, None)
            for logprob, token, _ in own[: len(logprobs)]
        ]
        whole = tokenizer.decode(drawn[: len(logprobs)])
        assert whole.startswith(found[0].encode())
        ends.add((bound.get_meta_info("out")["finish_reason"]["type"], whole == found[0].encode()))
    assert ends >= {("stop", True), ("stop", False)}
