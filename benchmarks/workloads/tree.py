"""A tree of thoughts: ideas, refinements of each, a mark for each of those; the best goes on."""

from __future__ import annotations

import re
from typing import Any

import sgdsl as sgl
from benchmarks.workloads.texts import drawn_passages
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from sgdsl import ProgramState
from sgdsl.expressions import Expr

SUBJECTS = ("the order", "the examples")
WAYS = ("shorter", "clearer")
IDEA_TOKENS, REFINED_TOKENS, CONCLUSION_TOKENS = 20, 12, 24
MARK = r" [1-9]"


@sgl.function
def think(s: ProgramState[Any], passage: str) -> None:
    s += f"Read this part of a language reference.\n\n{passage}\n\nWhat could be said better?"
    ideas = s.fork(len(SUBJECTS))
    ideas += [f"\nAn idea about {subject}:" for subject in SUBJECTS]
    ideas += _text("idea", IDEA_TOKENS)
    for idea in ideas:
        refined = idea.fork(len(WAYS))
        refined += [f"\nThe same, {way}:" for way in WAYS]
        refined += _text("refined", REFINED_TOKENS) + "\nMark out of 9:"
        refined += sgl.gen("mark", 4, temperature=0.0, regex=MARK, healing=False)
        refined.join()
    ideas.join()
    texts = [text for each in s["refined"] for text in each]
    marks = [int(mark) for each in s["mark"] for mark in each]
    s += "\nThe best idea:" + texts[marks.index(max(marks))]
    s += "\nConclusion:" + _text("conclusion", CONCLUSION_TOKENS)


def _text(name: str, num_tokens: int) -> Expr:
    return sgl.gen(name, num_tokens, temperature=0.0, ignore_eos=True, healing=False)


def rows(count: int, seed: int) -> list[Row]:
    return [Row({"passage": passage}) for passage in drawn_passages(count, seed)]


def judge(texts: Texts, _row: Row) -> Verdict:
    counts = {name: len(found) for name, found in texts.items()}
    leaves = len(SUBJECTS) * len(WAYS)
    complete = counts == {"idea": len(SUBJECTS), "refined": leaves, "mark": leaves, "conclusion": 1}
    return Verdict(complete and all(re.fullmatch(MARK, mark) for mark in texts["mark"]))


TREE = Workload("tree", think, rows, judge, num_quick=3)
