"""The official JSON Schema suite, draft 2020-12: every case is right, or its schema is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.grammars.official_suite import (
    ABSENT,
    FILES,
    FORMAT_FILES,
    PAGE,
    Outcome,
    cases_of,
    keywords_page,
    outcome,
    outcomes,
    remotes,
    with_remotes,
)

NARROWER = {"date-time", "duration", "hostname", "idn-email", "time"}
"""Formats of which some values are not written: see `grammars.formats`."""

REFUSED_FORMATS = {"ecmascript-regex", "idn-hostname", "regex"}

pytestmark = pytest.mark.skipif(not FILES, reason=ABSENT)


@cache
def alone(path: Path) -> list[Outcome]:
    return outcomes(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_is_right_or_its_schema_is_refused(path: Path) -> None:
    assert [found.case for found in alone(path) if found.is_wrong] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_with_remotes_no_schema_is_refused_for_a_reference(path: Path) -> None:
    found = with_remotes(alone(path), remotes())
    assert [each.case for each in found if each.is_wrong] == []
    assert [each.refusal for each in found if "resources=" in each.refusal] == []


def test_nearly_all_cases_are_right() -> None:
    found = [each for path in FILES for each in alone(path)]
    assert len(found) == 1_299
    assert sum(each.is_right for each in found) >= 1_246
    resources = remotes()
    assert sum(each.is_right for each in with_remotes(found, resources)) >= 1_294


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_in_the_declared_order_nothing_wrong_is_accepted(path: Path) -> None:
    found = [outcome(case, property_order="declared") for case in cases_of(path)]
    assert [each.case for each in found if each.is_wrong and each.is_accepted] == []


@pytest.mark.parametrize("path", FORMAT_FILES, ids=lambda path: path.stem)
def test_a_format_that_is_enforced_takes_nothing_else(path: Path) -> None:
    found = alone(path)
    wrong = [each for each in found if each.is_wrong]
    assert [each.case for each in wrong if each.is_accepted] == []
    assert bool(wrong) == (path.stem in NARROWER)
    assert any(each.refusal for each in found) == (path.stem in REFUSED_FORMATS)


def test_the_page_of_keywords_is_what_the_suite_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == keywords_page(), (
        "run `python -m tests.grammars.official_suite`"
    )
