"""What is asked of every row: a schema, a type, a pattern, choices, or a program.

Owns how each becomes a program with the rows' columns as arguments, and how its outputs are read.
Knows neither files nor backends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sgdsl as sgl
from grammars import Choices, Constraint, JsonSchema
from runtime.jobs.prompt import Prompt
from runtime.jobs.row import digest_of, jsonable
from sgdsl import Program, ProgramState
from sgdsl.errors import UsageError
from sgdsl.expressions import Expr

OUTPUT = "output"
"""The variable that a program of ours writes."""


@dataclass(frozen=True)
class Asked:
    """program: what is run; arguments: of a row's columns, by the program's parameters. columns:
    those that it needs. identity: all that its outputs depend on, backend aside. constraint: of the
    output, and schema: its JSON Schema, where there are some.
    """

    program: Program[Any]
    columns: tuple[str, ...]
    arguments: Callable[[Mapping[str, Any]], dict[str, Any]]
    output: Callable[[ProgramState[Any]], Any]
    identity: Mapping[str, str]
    constraint: Constraint | None = None
    schema: Mapping[str, Any] | None = None


def asked_of_program(program: Program[Any]) -> Asked:
    """Its arguments are columns; its output is what its body returns or, if that is nothing, its
    variables by name.
    """
    parameters = program.parameters
    if not parameters:
        raise UsageError(f"{program!r} takes no arguments: nothing of a row would get into it")
    needed = tuple(program.required)

    def arguments(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {name: columns[name] for name in parameters if name in columns}

    def output(state: ProgramState[Any]) -> Any:
        value = state.ret_value
        if value is None:
            value = state.variables()
        return jsonable(value)

    return Asked(program, needed, arguments, output, {"program": digest_of(program.source)})


def asked_of_text(
    prompt: Prompt, constraint: Constraint, *, chat: bool, max_tokens: int, temperature: float
) -> Asked:
    """One generation behind the prompt; of choices the likeliest. `chat`: instruction, examples and
    row are the messages of a conversation.
    """
    if isinstance(constraint, Choices):
        answer = sgl.select(OUTPUT, list(constraint.texts), temperature=temperature)
    else:
        answer = sgl.gen(
            OUTPUT, max_tokens=max_tokens, temperature=temperature, constraint=constraint
        )
    asks = getattr(constraint, "text", None)
    identity = {
        "prompt": digest_of([prompt.template, prompt.prefix, chat]),
        "schema": digest_of([type(constraint).__name__, asks or repr(constraint)]),
        "max_tokens": str(max_tokens),
        "temperature": str(temperature),
    }
    return Asked(
        _chat(prompt, answer) if chat else _plain(prompt, answer),
        prompt.holes,
        lambda columns: {"columns": {name: columns[name] for name in prompt.holes}},
        lambda state: _value(state[OUTPUT], constraint),
        identity,
        constraint,
        None if asks is None else json.loads(asks),
    )


def _value(value: Any, constraint: Constraint) -> Any:
    """As it stands in an output: JSON as what it says, a pattern's text as it is."""
    is_json = isinstance(constraint, JsonSchema) and isinstance(value, str)
    return json.loads(value) if is_json else jsonable(value)


def _plain(prompt: Prompt, answer: Expr) -> Program[Any]:
    prefix = prompt.prefix

    @sgl.function
    def extract(s: ProgramState, columns: dict[str, Any]) -> None:
        s += prefix + prompt.about(columns) + answer

    return extract


def _chat(prompt: Prompt, answer: Expr) -> Program[Any]:
    instruction = prompt.instruction.strip()

    @sgl.function
    def extract(s: ProgramState, columns: dict[str, Any]) -> None:
        if instruction:
            s += sgl.system(instruction)
        for example in prompt.examples:
            s += sgl.user(prompt.about(example.columns).strip())
            s += sgl.assistant(example.output)
        s += sgl.user(prompt.about(columns).strip())
        s += sgl.assistant(answer)

    return extract
