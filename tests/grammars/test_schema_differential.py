"""Random schemas of every keyword against `jsonschema`, both ways: what is valid in our
serialisation is accepted, and whatever can be written is valid, byte by byte and token by token.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings, strategies as st

from grammars import (
    CompileBudgetError,
    Compiler,
    EmptyLanguageError,
    GrammarError,
    JsonSchema,
    Matcher,
    accepts,
)
from grammars.algebra import Algebra
from grammars.budget import Budget
from grammars.completion import Completions
from grammars.derive import arms, step
from grammars.expr import Expr
from grammars.spelling import UNREACHABLE
from grammars.vocabulary import Vocabulary
from tests.grammars.json_schemas import schemas, schemas_and_values
from tests.grammars.judge import is_valid
from tests.grammars.vocabularies import budgets, small_vocabulary, walk

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])
COMPILER = Compiler(small_vocabulary(), max_grammars=4)


def tries(number: int) -> settings:
    return settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck))


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- what is valid is accepted, and nothing else ---------------------------------------------------


def check_values(schema: Any, values: list[Any]) -> None:
    constraint = JsonSchema(schema, property_order="any")
    is_empty = False
    for value in values:
        try:
            found = not is_empty and accepts(constraint, compact(value))
        except EmptyLanguageError:  # it is looked for why, which takes a while: once
            found, is_empty = False, True
        except GrammarError:
            reject()
        assert found == is_valid(schema, compact(value)), value


@given(schemas_and_values())
@tries(200)
def test_a_value_is_accepted_exactly_where_it_is_valid(case: tuple[Any, list[Any]]) -> None:
    check_values(*case)


@pytest.mark.fuzz
@pytest.mark.timeout(7_200)
@given(schemas_and_values(depth=3, most=10))
@tries(3_000)
def test_many_values_are_accepted_exactly_where_they_are_valid(
    case: tuple[Any, list[Any]],
) -> None:
    check_values(*case)


# -- what can be written is valid ------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """One way to write the values of a schema."""

    property_order: Any
    whitespace: Any
    ascii_only: bool
    extra_properties: bool | None = None

    def constraint(self, schema: Any) -> JsonSchema:
        return JsonSchema(
            schema,
            property_order=self.property_order,
            whitespace=self.whitespace,
            max_whitespace=2,
            ascii_only=self.ascii_only,
            extra_properties=self.extra_properties,
        )


styles = st.builds(
    Written,
    st.sampled_from(["any", "declared"]),
    st.sampled_from(["compact", "single", "flexible"]),
    st.booleans(),
    st.sampled_from([None, None, True, False]),
)


class Walks:
    """Random texts of one constraint: whatever byte may follow, then the completion."""

    def __init__(self, constraint: JsonSchema) -> None:
        self.algebra = Algebra(budget=Budget(max_steps=1_000_000, max_seconds=3.0))
        self.start = constraint.lower(self.algebra)
        self.completions = Completions(self.algebra, BYTES)
        if self.completions.cost(self.start) >= UNREACHABLE:  # a grammar is refused for that
            raise EmptyLanguageError("no text satisfies the constraint")

    def text(self, rng: random.Random) -> str:
        self.algebra.budget.refill()  # each text has the patience of one
        node, written = self.start, b""
        for _ in range(rng.choice([0, 4, 12, 40, 80])):
            if node.nullable and rng.random() < 0.3:
                break
            options = [mask for mask, _ in arms(self.algebra, node)]
            rng.shuffle(options)
            for mask in options:
                possible = _bytes_of(mask)
                byte = rng.choice([b for b in possible if 32 <= b < 127] or possible)
                after = step(self.algebra, node, byte)
                if self.completions.is_alive(after):
                    node, written = after, written + bytes([byte])
                    break
            else:
                break
            assert self.completions.cost(node) < UNREACHABLE, f"a dead end after {written!r}"
        return (written + self.ending(node)).decode()

    def ending(self, node: Expr) -> bytes:
        """The completion, asked for anew after each byte, as it depends on what was written. One
        that is not sure may have to become another, as masks know: then the cheapest way out.
        """
        written = b""
        while not node.nullable:
            plan = self.completions.spelling(node)
            byte = next(plan.tokens())
            if not plan.is_sure and not self.completions.is_alive(step(self.algebra, node, byte)):
                others = [_bytes_of(mask)[0] for mask, _ in arms(self.algebra, node)]
                byte = min(others, key=lambda b: self.completions.cost(step(self.algebra, node, b)))
            node = step(self.algebra, node, byte)
            written += bytes([byte])
            assert self.completions.cost(node) < UNREACHABLE, f"a dead end after {written!r}"
        return written


def _bytes_of(mask: int) -> list[int]:
    return [byte for byte in range(256) if mask >> byte & 1]


def check_walks(schema: Any, style: Written, seed: int, *, number: int) -> None:
    rng = random.Random(seed)
    try:
        walks = Walks(style.constraint(schema))
    except GrammarError:
        reject()
    for _ in range(number):
        try:
            text = walks.text(rng)
        except CompileBudgetError:  # as a step's row would end
            reject()
        assert is_valid(schema, text), text
        assert text.isascii() or not style.ascii_only
        check_layout(text, style)


def check_layout(text: str, style: Written) -> None:
    """White space is written as it was asked for."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "0", text)
    if style.whitespace == "compact":
        assert not re.search(r"\s", outside)
    elif style.whitespace == "single":
        assert not re.search(r"[,:\s]", re.sub(r"[,:] ", "", outside))
    else:  # inside of empty brackets there are two gaps
        assert not re.search(r"\s{3}", re.sub(r"[\[{]\s{0,4}[\]}]", "0", outside))


@given(schemas(), styles, st.integers(0, 10**6))
@tries(200)
def test_whatever_can_be_written_is_valid(schema: Any, style: Written, seed: int) -> None:
    check_walks(schema, style, seed, number=4)


@pytest.mark.fuzz
@pytest.mark.timeout(7_200)
@given(schemas(depth=3), styles, st.integers(0, 10**6))
@tries(2_000)
def test_much_that_can_be_written_is_valid(schema: Any, style: Written, seed: int) -> None:
    check_walks(schema, style, seed, number=10)


@given(schemas(), st.integers(0, 10**6))
@tries(60)
def test_the_declared_order_is_one_of_any_order(schema: Any, seed: int) -> None:
    rng = random.Random(seed)
    try:
        walks = Walks(JsonSchema(schema))
    except GrammarError:
        reject()
    for _ in range(4):
        assert accepts(JsonSchema(schema, property_order="any"), walks.text(rng))


# -- token by token --------------------------------------------------------------------------------


def check_tokens(schema: Any, style: Written, seed: int) -> None:
    constraint = style.constraint(schema)
    try:
        grammar = COMPILER.compile(constraint)
    except GrammarError:
        reject()
    for budget in budgets(grammar):
        text = walk(Matcher(grammar, max_tokens=budget), random.Random(seed)).decode()
        assert grammar.contains(text)
        assert is_valid(schema, text), text


@given(schemas(), styles, st.integers(0, 10**6))
@tries(40)
def test_every_budget_ends_in_a_valid_text(schema: Any, style: Written, seed: int) -> None:
    check_tokens(schema, style, seed)


@pytest.mark.fuzz
@pytest.mark.timeout(7_200)
@given(schemas(depth=3), styles, st.integers(0, 10**6))
@tries(500)
def test_every_budget_of_many_schemas_ends_in_a_valid_text(
    schema: Any, style: Written, seed: int
) -> None:
    check_tokens(schema, style, seed)
