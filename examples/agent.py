"""An agent with two tools: it thinks, acts, observes, and answers (ReAct, Yao et al., 2023).

    python examples/agent.py [--model FOLDER] [QUESTION]

What the model may do next is a grammar, so every action can be carried out: there is nothing to
parse that could fail, and no tool that does not exist.
"""

from __future__ import annotations

import argparse
import ast
import operator
from collections.abc import Callable

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

MAX_STEPS = 4
QUESTION = "How many people live in Norway and Iceland together?"
PEOPLE = {"Norway": 5_600_000, "Iceland": 390_000, "Malta": 560_000}

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
EXPRESSION = r"[0-9]{1,12}( [-+*/] [0-9]{1,12}){1,3}"

EXAMPLE = """\
Question: How many more people live in Malta than in Iceland?
Thought: I need both numbers.
Action: people of Malta
Observation: 560000
Action: people of Iceland
Observation: 390000
Action: calculate 560000 - 390000
Observation: 170000
Action: answer 170000

"""


def calculate(expression: str) -> str:
    """The value of sums and products of numbers."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        return float(ast.unparse(node))  # the grammar allows numbers and operators only

    try:
        return f"{value(ast.parse(expression, mode='eval').body):g}"
    except ZeroDivisionError:
        return "division by zero"


@sgl.function
def agent(s: ProgramState, question: str) -> str:
    s += EXAMPLE + "Question: " + question + "\nThought:" + sgl.gen("thought", 40, stop="\n")
    for step in range(MAX_STEPS):
        s += "\nAction: "
        tools = ["people of ", "calculate ", "answer "]
        s += sgl.select("tool", tools if step < MAX_STEPS - 1 else ["answer "])
        if s["tool"] == "answer ":
            break
        if s["tool"] == "people of ":
            s += sgl.gen("country", choices=sorted(PEOPLE))
            s += f"\nObservation: {PEOPLE[s['country']]}"
        else:
            s += sgl.gen("expression", 40, regex=EXPRESSION, temperature=0.0)
            s += "\nObservation: " + calculate(s["expression"])
    s += sgl.gen("answer", 20, stop="\n", temperature=0.0)
    answer: str = s["answer"]
    return answer


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    with Runtime(options.model) as runtime:
        state = agent.run(options.question, backend=runtime, temperature=0.0)
        print(state.text().removeprefix(EXAMPLE))


if __name__ == "__main__":
    main()
