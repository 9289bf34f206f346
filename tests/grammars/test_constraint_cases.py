"""The cases of public reports in `../shared/data`: each right or refused, none wrongly accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from grammars import Constraint, GrammarError, JsonSchema, Regex, accepts
from grammars.constraint import PropertyOrder, Whitespace

CASES = Path(__file__).parents[3] / "shared" / "data" / "constraint_cases.json"

REFUSED = {
    "I15": "no value satisfies",
    "I43": "refers only to itself",
}
"""Refused by the compile, and rightly so."""


def load() -> list[dict[str, Any]]:
    if not CASES.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))
    return cases


def constraints(case: dict[str, Any]) -> list[Constraint]:
    """The case's constraint, once for each way to write it."""
    if case["kind"] == "regex":
        return [Regex(case["spec"])]
    return [
        JsonSchema(case["spec"], whitespace=whitespace, property_order=order)
        for whitespace in get_args(Whitespace)
        for order in get_args(PropertyOrder)
    ]


def test_the_cases_are_there() -> None:
    if not load():
        pytest.skip(f"the data of the cases is not beside the repository: no {CASES.name}")


@pytest.mark.parametrize("case", load(), ids=lambda case: case["id"])
def test_a_case_is_right_or_refused(case: dict[str, Any]) -> None:
    if case["id"] in REFUSED:
        with pytest.raises(GrammarError, match=REFUSED[case["id"]]):
            accepts(constraints(case)[0], "")
        return
    written = constraints(case)
    assert not [text for text in case["reject"] if any(accepts(c, text) for c in written)]
    assert not [text for text in case["accept"] if not any(accepts(c, text) for c in written)]
