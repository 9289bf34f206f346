"""Agents with a tool: prompts that grow by thoughts, actions as JSON, and what the tool answers."""

from __future__ import annotations

import json
from pydoc_data.topics import topics
from typing import Any

import jsonschema

import sgdsl as sgl
from benchmarks.workloads.texts import drawn_passages
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from sgdsl import ProgramState
from sgdsl.expressions import Expr

PAGES = ("assert", "async", "break", "class", "continue", "del", "for", "global", "if", "import")
"""Topics of the language reference that the tool knows; every Python has them."""

ACTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["look_up", "search"]},
        "page": {"enum": list(PAGES)},
        "line": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["tool", "page", "line"],
    "additionalProperties": False,
}
INSTRUCTION = f"""\
You answer questions about Python with the help of its language reference. In every step you write \
what you think, then one action as JSON; you are shown what the page says, and go on. After the \
last step you write the answer.

Tools: "look_up" shows a page from a line on, "search" shows the lines around the one given.
Pages: {", ".join(PAGES)}.

Question: What does a statement that does nothing look like?
Thought: The page about classes shows an empty body.
Action: {{"tool":"look_up","page":"class","line":4}}
Observation: class Foo: pass
Thought: That is the statement.
Action: {{"tool":"search","page":"if","line":0}}
Observation: The "if" statement is used for conditional execution.
Answer: It is the single word pass.

"""
NUM_STEPS = 3
THOUGHT_TOKENS, ACTION_TOKENS, ANSWER_TOKENS = 12, 32, 16
OBSERVED_CHARACTERS = 200


@sgl.function
def act(s: ProgramState[Any], question: str) -> None:
    s += INSTRUCTION + f"Question: What is meant here? {question}\n"
    for step in range(NUM_STEPS):
        s += "Thought:" + _text(f"thought{step}", THOUGHT_TOKENS)
        s += "\nAction:"
        name = f"action{step}"
        s += sgl.gen(name, ACTION_TOKENS, temperature=0.0, json_schema=ACTION, healing=False)
        s += f"\nObservation: {observe(json.loads(s[name]))}\n"
    s += "Answer:" + _text("answer", ANSWER_TOKENS)


def _text(name: str, num_tokens: int) -> Expr:
    return sgl.gen(name, num_tokens, temperature=0.0, ignore_eos=True, healing=False)


def observe(action: dict[str, Any]) -> str:
    """What the tool answers."""
    lines = [line for line in topics[action["page"]].splitlines() if line.strip()]
    first = min(int(action["line"]), len(lines) - 1)  # JSON may write it 4.0
    if action["tool"] == "search":
        first = max(0, first - 2)
    return " ".join(" ".join(lines[first : first + 6]).split())[:OBSERVED_CHARACTERS]


def rows(count: int, seed: int) -> list[Row]:
    return [Row({"question": passage[:200]}) for passage in drawn_passages(count, seed)]


def judge(texts: Texts, _row: Row) -> Verdict:
    for step in range(NUM_STEPS):
        (action,) = texts[f"action{step}"]
        try:
            jsonschema.validate(json.loads(action), ACTION)
        except (json.JSONDecodeError, jsonschema.ValidationError):
            return Verdict(False)
    return Verdict(len(texts["answer"]) == 1)


AGENTS = Workload("agents", act, rows, judge, num_quick=2)
