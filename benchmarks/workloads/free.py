"""Unconstrained text of very different lengths behind prompts that share nothing."""

from __future__ import annotations

import random
from typing import Any

import sgdsl as sgl
from benchmarks.workloads.texts import drawn_passages
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from sgdsl import ProgramState

SHORTEST, LONGEST = 16, 256
"""Tokens of an output; evenly spread, in any order, and given to every engine."""


@sgl.function
def continue_text(s: ProgramState[Any], passage: str, num_tokens: int) -> None:
    s += passage
    s += sgl.gen("text", max_tokens=num_tokens, temperature=0.0, ignore_eos=True, healing=False)


def rows(count: int, seed: int) -> list[Row]:
    found = drawn_passages(count, seed)
    span = (LONGEST - SHORTEST) / count
    lengths = [round(SHORTEST + span * (index + 0.5)) for index in range(count)]
    random.Random(f"lengths {seed}").shuffle(lengths)
    pairs = zip(found, lengths, strict=True)
    return [Row({"passage": passage, "num_tokens": length}) for passage, length in pairs]


def judge(texts: Texts, _row: Row) -> Verdict:
    return Verdict(len(texts["text"]) == 1)


FREE = Workload("free", continue_text, rows, judge, num_quick=3)
