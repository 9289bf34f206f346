"""A tree of thought: three plans, three solutions of each, three scores of each solution.

    python examples/tree_of_thought.py [--model FOLDER] [QUESTION]

All 27 leaves run side by side, and each shares the text of its path with its brothers. The parent
reads nested lists: `scores[plan][solution][judge]`. See Yao et al., "Tree of Thoughts", 2023.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import mean

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

WIDTH = 3
QUESTION = "A shop sells pens at 3 for 2 dollars. How much do 12 pens cost?"


@dataclass(frozen=True)
class Solution:
    plan: str
    text: str
    score: float


@sgl.function
def solve(s: ProgramState, question: str) -> Solution:
    """The solution whose scores are best on average."""
    s += "Question: " + question
    plans = s.fork(WIDTH)
    plans += "\nA plan in one sentence:" + sgl.gen("plan", max_tokens=40, stop="\n")
    for plan in plans:
        solutions = plan.fork(WIDTH)
        solutions += "\nFollowing it:" + sgl.gen("solution", max_tokens=60, stop="\n")
        for solution in solutions:
            judges = solution.fork(WIDTH)
            judges += "\nFrom 1 to 9, how right is that? " + sgl.gen("score", regex="[1-9]")
            judges.join()
        solutions.join()
    plans.join()
    found = [
        Solution(plan, text, mean(map(int, scores)))
        for plan, texts, all_scores in zip(s["plan"], s["solution"], s["score"], strict=True)
        for text, scores in zip(texts, all_scores, strict=True)
    ]
    return max(found, key=lambda solution: solution.score)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    with Runtime(options.model) as runtime:
        best = solve.run(options.question, backend=runtime, temperature=0.8, seed=1).ret_value
        print(f"plan:{best.plan}\nsolution:{best.text}\nscore: {best.score:.1f} of 9")


if __name__ == "__main__":
    main()
