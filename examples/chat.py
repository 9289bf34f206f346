"""A chat in the terminal: the reply appears as it is written, the conversation is kept.

    python examples/chat.py [--model FOLDER]

Each turn is a run that starts from the messages so far. Their tokens are the same as in the turn
before, so that the prefix cache has them already. An empty line ends it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

SYSTEM = "You are a friendly assistant who answers in one or two sentences."


@sgl.function
def turn(s: ProgramState, text: str) -> None:
    s += sgl.user(text)
    s += sgl.assistant(sgl.gen("reply", max_tokens=120))


def chat(lines: Iterable[str], backend: sgl.Backend, *, temperature: float = 0.0) -> Iterator[str]:
    """The pieces of each reply as they arrive, and a newline behind it; up to an empty line."""
    messages = [{"role": "system", "content": SYSTEM}]
    for line in lines:
        if not line.strip():
            return
        state = turn.run(
            line.strip(), messages=messages, backend=backend, temperature=temperature, stream=True
        )
        yield from state.text_iter("reply")
        yield "\n"
        messages = state.messages()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    with Runtime(options.model) as runtime:
        print("Say something; an empty line ends it.")
        for piece in chat(sys.stdin, runtime):
            print(piece, end="", flush=True)


if __name__ == "__main__":
    main()
