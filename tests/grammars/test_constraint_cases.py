"""The cases of public reports in `../shared/data`: each right or refused, none wrongly accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grammars import Constraint, GrammarError, JsonSchema, Regex, accepts

CASES = Path(__file__).parents[3] / "shared" / "data" / "constraint_cases.json"

REFUSED = {"I15", "I27", "I29", "I43", "I47", "I51", "I53"}
"""Refused by the compile: I15 and I43 rightly so, the others until their keywords are enforced."""

NARROWER = {"I45"}
"""Members that are not declared are not written where some are."""


def load() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
    return cases


def constraints(case: dict[str, Any]) -> list[Constraint]:
    """The case's constraint, once for each way to write white space."""
    if case["kind"] == "regex":
        return [Regex(case["spec"])]
    return [JsonSchema(case["spec"]), JsonSchema(case["spec"], whitespace="single")]


def test_the_cases_are_there() -> None:
    if not load():
        pytest.skip(f"the data of the cases is not beside the repository: no {CASES.name}")


@pytest.mark.parametrize("case", load(), ids=lambda case: case["id"])
def test_a_case_is_right_or_refused(case: dict[str, Any]) -> None:
    if case["id"] in REFUSED:
        with pytest.raises(GrammarError):
            accepts(constraints(case)[0], "")
        return
    written = constraints(case)
    assert not [text for text in case["reject"] if any(accepts(c, text) for c in written)]
    missing = [text for text in case["accept"] if not any(accepts(c, text) for c in written)]
    assert bool(missing) == (case["id"] in NARROWER)
