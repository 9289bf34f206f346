"""Conversations of several turns: every prompt is the one before, its reply and a new question."""

from __future__ import annotations

import random
from typing import Any

import sgdsl as sgl
from benchmarks.workloads.texts import drawn_passages
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from sgdsl import ProgramState

SYSTEM = (
    "You are a patient teacher of Python. You answer in one or two short sentences, in plain "
    "words, without code unless somebody asks for it. When you do not know something, you say so, "
    "and you name the page of the reference where it can be looked up."
)
QUESTIONS = (
    "Say that in simpler words.",
    "Why is it done like that?",
    "What would go wrong without it?",
    "Give me an example from everyday life.",
)
SHORTEST, LONGEST = 8, 32
"""Tokens of a reply; drawn, and given to every engine."""


@sgl.function
def talk(s: ProgramState[Any], questions: list[str], lengths: list[int]) -> None:
    """Every reply is read before the next question is asked, as people do."""
    s += sgl.system(SYSTEM)
    for turn, (question, length) in enumerate(zip(questions, lengths, strict=True)):
        s += sgl.user(question)
        reply = sgl.gen(f"reply{turn}", max_tokens=length, temperature=0.0, ignore_eos=True)
        s += sgl.assistant(reply)
        assert isinstance(s[f"reply{turn}"], str)


def rows(count: int, seed: int) -> list[Row]:
    draw = random.Random(f"chat {seed}")
    found = []
    for passage in drawn_passages(count, seed):
        questions = [f"What does this mean? {passage}", *draw.sample(QUESTIONS, 3)]
        lengths = [draw.randint(SHORTEST, LONGEST) for _ in questions]
        found.append(Row({"questions": questions, "lengths": lengths}))
    return found


def judge(texts: Texts, row: Row) -> Verdict:
    return Verdict(list(texts) == [f"reply{turn}" for turn in range(len(row.arguments["lengths"]))])


CHAT = Workload("chat", talk, rows, judge, num_quick=3)
