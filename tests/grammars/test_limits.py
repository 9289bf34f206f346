"""Limits: what is made to hurt is refused or compiles, what is kept is bounded, annotations say
nothing."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from grammars import (
    CompileBudgetError,
    Compiler,
    Constraint,
    Grammar,
    GrammarError,
    JsonSchema,
    Matcher,
    mask_store,
)
from grammars.algebra import Algebra
from grammars.budget import CHECK_EVERY, Budget
from grammars.constraint import Regex
from grammars.schema_document import MANY, NAMED, ONE
from tests.grammars.hostile import HOSTILE, Make
from tests.grammars.json_schemas import schemas
from tests.grammars.vocabularies import small_vocabulary, walk

VOCABULARY = small_vocabulary()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_what_is_made_to_hurt_compiles_or_is_refused(make: Make) -> None:
    """Within a small budget: what is allowed more of it only takes longer."""
    compiler = Compiler(VOCABULARY, max_steps=40_000, max_seconds=0.5, max_lazy_seconds=0.2)
    with suppress(GrammarError):
        matcher = Matcher(compiler.compile(make()), max_tokens=1_000_000)
        rng = random.Random(0)
        for _ in range(5):
            allowed = matcher.allowed_token_ids()
            matcher.accept_token(int(rng.choice(allowed)))
            if matcher.is_terminated:
                break


# -- budgets ---------------------------------------------------------------------------------


def spend_all(budget: Budget, steps: int, num_bytes: int = 0) -> None:
    for _ in range(steps):
        budget.spend(1, num_bytes)


def test_bytes_are_counted_over_all_allowances() -> None:
    budget = Budget(max_bytes=1_000 * CHECK_EVERY)
    spend_all(budget, CHECK_EVERY, 600)
    budget.refill()
    with pytest.raises(CompileBudgetError, match="max_bytes"):
        spend_all(budget, 2 * CHECK_EVERY, 600)
    assert budget.is_spent


def test_a_budget_is_cancelled_from_another_thread() -> None:
    budget = Budget(max_steps=10**12, max_seconds=10**6)
    ready = threading.Event()
    found: list[BaseException] = []

    def compute() -> None:
        try:
            while True:
                budget.spend()
                ready.set()
        except CompileBudgetError as error:
            found.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    ready.wait()
    budget.cancel()
    thread.join()
    assert "cancelled" in str(found[0])
    assert not budget.is_spent


def test_each_thread_pays_for_its_own_compile_alone() -> None:
    compiler = Compiler(VOCABULARY, max_steps=3_000)
    refused: list[str] = []

    def compile_one(pattern: str) -> None:
        try:
            compiler.compile(Regex(pattern))
        except CompileBudgetError:
            refused.append(pattern)

    patterns = [f"(a{{{n}}}b){{9}}" for n in (900, 5, 901, 6, 902, 7)]
    threads = [threading.Thread(target=compile_one, args=[pattern]) for pattern in patterns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(refused) == sorted(patterns[::2])


def test_closing_ends_a_compile_that_is_under_way() -> None:
    compiler = Compiler(VOCABULARY, max_steps=10**9, max_seconds=10**6, max_bytes=1 << 40)
    timer = threading.Timer(0.2, compiler.close)
    timer.start()
    with pytest.raises(CompileBudgetError, match="cancelled"):
        compiler.compile(Regex("(a{1000}b){1000}"))


def test_a_lazy_step_beyond_its_limit_says_so() -> None:
    compiler = Compiler(VOCABULARY, max_lazy_steps=CHECK_EVERY)
    grammar = compiler.compile(HOSTILE["many_optionals"]())
    with pytest.raises(CompileBudgetError, match="max_steps"):
        Matcher(grammar, max_tokens=9).allowed_token_ids()


def test_the_bytes_that_are_counted_are_about_those_that_are_taken() -> None:
    gc.collect()
    tracemalloc.start()
    budget = Budget()
    algebra = Algebra(budget=budget)
    kept = JsonSchema({"enum": [f"value {n}" for n in range(20_000)]}).lower(algebra)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not algebra.empty
    assert taken / 4 < budget.num_bytes < 4 * taken


# -- what is kept ----------------------------------------------------------------------------


def _constraint(number: int) -> Constraint:
    if number % 5:
        return Regex(f"[a-f]{{1,7}}x{number}|(ab?c{number})*z")
    names = {f"n{number}_{index}": {"enum": [number, f"v{number}"]} for index in range(3)}
    return JsonSchema({"type": "object", "properties": names, "required": list(names)[:2]})


@pytest.mark.timeout(900)
def test_two_thousand_constraints_keep_memory_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grammars, masks and states are all dropped; with the bounds as they are, later."""
    monkeypatch.setattr(mask_store, "MAX_HELD_BYTES", 2 << 20)
    monkeypatch.setattr(mask_store, "MAX_KEPT_STATES", 1_024)
    compiler = Compiler(
        VOCABULARY, max_grammars=16, max_grammar_bytes=2 << 20, max_mask_bytes=1 << 20
    )
    rng = random.Random(0)
    sizes: list[int] = []
    tracemalloc.start()
    for number in range(2_000):
        matcher = Matcher(compiler.compile(_constraint(number)), max_tokens=4_000)
        matcher.accept_token(int(rng.choice(matcher.allowed_token_ids())))
        if number % 400 == 399:
            del matcher
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(sizes[1:]) < sizes[0] + (6 << 20), sizes


def test_grammars_are_dropped_by_their_bytes_and_by_those_of_their_texts() -> None:
    compiler = Compiler(VOCABULARY, max_grammar_bytes=1 << 20)
    for number in range(8):
        compiler.compile(JsonSchema({"const": number, "description": "b" * 200_000}))
        assert len(compiler._grammars) <= 5
    last = compiler.compile(Regex("a"))
    assert compiler.compile(Regex("a")) is last


# -- annotations -----------------------------------------------------------------------------

ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(["", "type", "a" * 500]),
        "description": st.text(max_size=20),
        "default": st.sampled_from([None, 3, {"type": "string"}, ["$ref"]]),
        "examples": st.sampled_from([[], [1, "a"], [{"$ref": "#/nowhere"}]]),
        "$comment": st.text(max_size=20),
        "deprecated": st.booleans(),
        "readOnly": st.booleans(),
        "writeOnly": st.booleans(),
    },
)


def _annotate(schema: Any, data: st.DataObject) -> Any:
    """Annotations at every place of a schema where there is a schema."""
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in MANY and isinstance(value, list):
            made[keyword] = [_annotate(each, data) for each in value]
        elif keyword in NAMED and isinstance(value, dict):
            made[keyword] = {name: _annotate(each, data) for name, each in value.items()}
        else:
            made[keyword] = _annotate(value, data) if keyword in ONE else deepcopy(value)
    before = data.draw(ANNOTATIONS)
    return {**{k: v for k, v in before.items() if k not in made}, **made}


@settings(max_examples=60, deadline=None)
@given(schema=schemas(), data=st.data(), seed=st.integers(0, 99))
def test_annotations_never_change_the_language(schema: Any, data: st.DataObject, seed: int) -> None:
    compiler = Compiler(VOCABULARY, max_steps=50_000)
    annotated = _annotate(schema, data)
    found: list[Grammar | type[GrammarError]] = []
    for each in (schema, annotated):
        try:
            found.append(compiler.compile(JsonSchema(each)))
        except GrammarError as error:
            found.append(type(error))
    plain, other = found
    if isinstance(plain, type) or isinstance(other, type):
        assert plain == other
        return
    assert plain.min_tokens == other.min_tokens
    for grammar, judge in ((plain, other), (other, plain)):
        text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 20), random.Random(seed))
        assert judge.contains(text.decode())
