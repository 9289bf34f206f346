"""Workloads are the same for everyone, as long as they say, and judged as they should be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.workloads import WORKLOADS, chat, free, select, texts
from benchmarks.workloads.agents import ACTION, PAGES, observe
from benchmarks.workloads.extract import EXTRACT, NUM_FIELDS
from benchmarks.workloads.regex import REGEX
from benchmarks.workloads.tree import TREE
from benchmarks.workloads.workload import Row, Texts, Verdict

RECORD: dict[str, Any] = {
    "name": "x",
    "version": None,
    "license": "MIT",
    "topics": [],
    "status": "beta",
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    rows = WORKLOADS[name].rows
    assert rows(6, 3) == rows(6, 3) != rows(6, 4)
    assert len(rows(500, 0)) == 500  # however few texts there are


def test_lengths_are_spread_between_their_bounds() -> None:
    lengths = [row.arguments["num_tokens"] for row in free.rows(240, 0)]
    assert sorted(lengths) != lengths
    assert (min(lengths), max(lengths)) == (free.SHORTEST, free.LONGEST)
    assert abs(sum(lengths) / 240 - (free.SHORTEST + free.LONGEST) / 2) < 2


def test_passages_are_different_and_of_their_length() -> None:
    known = texts.passages()
    assert len(set(known)) > 200
    assert all(len(passage) <= texts.MAX_PASSAGE for passage in known)
    drawn = texts.drawn_passages(100, 0)
    assert len(set(drawn)) == 100


def test_conversations_end_each_turn_with_a_length_of_their_own() -> None:
    for row in chat.rows(20, 0):
        lengths, questions = row.arguments["lengths"], row.arguments["questions"]
        assert len(lengths) == len(set(questions)) == 4
        assert all(chat.SHORTEST <= length <= chat.LONGEST for length in lengths)


def test_examples_are_no_rows() -> None:
    shots, _ = select.shots()
    assert len(shots) >= select.SHOT_CHARACTERS
    asked = [row.arguments["document"] for row in select.rows(10, 0)]
    assert not any(document in shots for document in asked)


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"license": "?"}, False),
        ({"topics": ["a"]}, False),  # too short
        ({"min_python": "4.1"}, False),
    ],
)
def test_records_are_judged_by_their_schema(change: dict[str, Any], valid: bool) -> None:
    (row,) = EXTRACT.rows(1, 0)
    written = json.dumps({**RECORD, "min_python": "3.9", **change})
    verdict = EXTRACT.judge({"record": [written]}, row)
    assert (verdict.valid, verdict.num_values) == (valid, NUM_FIELDS)
    assert not EXTRACT.judge({"record": [written[:-1]]}, row).valid


def test_values_are_compared_with_the_truth() -> None:
    row = Row({}, {"name": "attrs", "license": "MIT", "python": "3.9"})
    assert REGEX.judge({"line": [" attrs | MIT | 3.9"]}, row) == Verdict(True, 3, 3)
    assert REGEX.judge({"line": [" attrs | BSD | none"]}, row) == Verdict(True, 1, 3)
    assert REGEX.judge({"line": [" Attrs | MIT | 3.9"]}, row) == Verdict(False, 0, 3)
    chosen = Row({}, {"license": " MIT"})
    assert select.judge({"license": [" MIT"]}, chosen) == Verdict(True, 1, 1)
    assert select.judge({"license": [" M"]}, chosen) == Verdict(False, 0, 1)


@pytest.mark.parametrize(
    ("marks", "valid"), [([" 1", " 9", " 3", " 4"], True), ([" 0", " 9", " 3", " 4"], False)]
)
def test_a_tree_is_whole_and_its_marks_are_marks(marks: list[str], valid: bool) -> None:
    found: Texts = {"idea": ["a"] * 2, "refined": ["b"] * 4, "mark": marks, "conclusion": ["c"]}
    row = Row({})
    assert TREE.judge(found, row).valid == valid
    assert not TREE.judge({**found, "idea": ["a"]}, row).valid


def test_the_tool_answers_every_action() -> None:
    for tool in ACTION["properties"]["tool"]["enum"]:
        for page in PAGES:
            assert observe({"tool": tool, "page": page, "line": 99})
    first = observe({"tool": "look_up", "page": "assert", "line": 0.0})
    assert first != observe({"tool": "look_up", "page": "assert", "line": 4})
