"""The benchmark's corpus: its verdicts are those of other judges, and ours are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pytest

from benchmarks.corpus import Case, corpus
from benchmarks.engines import constraint_of
from grammars import Compiler, Matcher, accepts
from tests.grammars.vocabularies import small_vocabulary

CASES = corpus()
COMPILER = Compiler(small_vocabulary())


def named(*kinds: str) -> pytest.MarkDecorator:
    cases = [case for case in CASES if case.kind in kinds]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    counts = {kind: sum(case.kind == kind for case in CASES) for kind in ("schema", "regex")}
    assert counts["schema"] >= 60
    assert counts["regex"] >= 20
    for case in CASES:
        assert case.valid and case.invalid, case.name


# -- the verdicts ----------------------------------------------------------------------------------


def _is_time(value: str) -> bool:
    return (
        re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value) is not None
    )


def _is_moment(value: str) -> bool:
    day, _, time = value.partition("T")
    return re.fullmatch(r"\d{4}-\d\d-\d\d", day) is not None and _is_time(time)


def _is_host(value: str) -> bool:
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    return re.fullmatch(rf"{label}(\.{label})*", value) is not None


def _checker() -> jsonschema.FormatChecker:
    """jsonschema's own, and those that it leaves to packages that are not here."""
    checker = jsonschema.FormatChecker()
    checks: dict[str, Callable[[str], bool]] = {
        "time": _is_time, "date-time": _is_moment, "hostname": _is_host,
    }  # fmt: skip
    for name, check in checks.items():
        checker.checks(name)(lambda value, check=check: not isinstance(value, str) or check(value))
    return checker


@named("schema")
def test_the_verdicts_are_those_of_jsonschema(case: Case) -> None:
    def exact(value: Any) -> Any:  # as decimals, or 0.07 would be no multiple of 0.01
        return json.loads(json.dumps(value), parse_float=Decimal)

    schema = exact(case.spec)
    jsonschema.Draft202012Validator.check_schema(case.spec)
    validator = jsonschema.Draft202012Validator(schema, format_checker=_checker())
    for value in case.valid:
        assert validator.is_valid(exact(value)), value
    for value in case.invalid:
        assert not validator.is_valid(exact(value)), value


@named("regex")
def test_the_verdicts_are_those_of_re(case: Case) -> None:
    for text, right in case.texts():
        assert (re.fullmatch(case.spec, text) is not None) == right, text


def test_moments_are_read_by_python() -> None:
    """The format checks of this file accept nothing that Python cannot read."""
    for text in ("2024-02-29T12:00:00.5+05:30", "1999-12-31T23:59:59Z"):
        assert _is_moment(text)
        datetime.fromisoformat(text)


# -- ours ------------------------------------------------------------------------------------------


@named("schema", "regex", "grammar")
def test_every_output_is_accepted_or_rejected_rightly(case: Case) -> None:
    constraint = constraint_of(case.kind, case.spec)
    for text, right in case.texts():
        assert accepts(constraint, text) == right, text


@named("schema", "regex", "grammar")
def test_the_masks_let_exactly_the_valid_outputs_through(case: Case) -> None:
    grammar = COMPILER.compile(constraint_of(case.kind, case.spec))
    wrong = [text for text, right in case.texts() if _passes(grammar, text) != right]
    assert not wrong


def _passes(grammar: Any, text: str) -> bool:
    matcher = Matcher(grammar, max_tokens=1 << 20)
    for token_id in grammar.fewest_tokens(text.encode()):
        if not matcher.allows(token_id):
            return False
        matcher.accept_token(token_id)
    return matcher.is_complete
