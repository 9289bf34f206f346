"""A judge of two answers, who is not told which one came first.

    python examples/judge.py [--model FOLDER]

Models like the answer that they read first, so the judge reads the two in both orders, on forks
that share everything before them. Each dimension is scored on a fork of its own. An answer wins
only where both orders agree.
"""

from __future__ import annotations

import argparse
from typing import Literal

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

DIMENSIONS = ["correctness", "clarity"]
QUESTION = "Why is the sky blue?"
FIRST = "Air scatters blue light more than red light, so blue reaches us from all directions."
SECOND = "The sky is blue because it is the colour of the sky."

Verdict = Literal["first", "second", "tie"]


@sgl.function
def judge(s: ProgramState, question: str, answers: tuple[str, str]) -> dict[str, Verdict]:
    """Who is better in each of `DIMENSIONS`."""
    s += "Two students, A and B, answer a question. Say who is better.\n\nQuestion: " + question
    orders = s.fork(2)
    for order, (one, other) in zip(orders, [answers, answers[::-1]], strict=True):
        order.append(f"\nA: {one}\nB: {other}\n")
        dimensions = order.fork(len(DIMENSIONS))
        dimensions += [f"For {dimension}, the better student is " for dimension in DIMENSIONS]
        dimensions += sgl.select("better", ["A", "B"])
        dimensions.join()
    orders.join()
    straight, turned = s["better"]  # a list a fork, of a choice a dimension
    return {
        dimension: verdict(*choices)
        for dimension, *choices in zip(DIMENSIONS, straight, turned, strict=True)
    }


def verdict(straight: str, turned: str) -> Verdict:
    """In the second order A and B are each other's answer."""
    if straight == turned:
        return "tie"
    return "first" if straight == "A" else "second"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    with Runtime(options.model) as runtime:
        state = judge.run(QUESTION, (FIRST, SECOND), backend=runtime)
        for dimension, better in state.ret_value.items():
            print(f"{dimension}: {better}")


if __name__ == "__main__":
    main()
