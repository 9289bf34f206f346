"""Questions about a long document, answered with a quote that is in it.

    python examples/quote.py [--model FOLDER] [--file FILE] [QUESTION ...]

The document is split; each part is asked on a fork whether it has the answer, and the part that is
surest is read. The quote is constrained to be a piece of that part, so it cannot be made up.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

PART_CHARS = 1200
LICENSE = Path(__file__).parent.parent / "LICENSE"
QUESTIONS = ["Who may use the trade names of the licensor?", "Is there any warranty?"]


@dataclass(frozen=True)
class Answer:
    quote: str
    answer: str


def parts_of(document: str) -> list[str]:
    """Pieces of whole paragraphs, each of about `PART_CHARS` characters."""
    parts = [""]
    for paragraph in document.split("\n\n"):
        if parts[-1] and len(parts[-1]) + len(paragraph) > PART_CHARS:
            parts.append("")
        parts[-1] += paragraph + "\n\n"
    return [" ".join(part.split()) for part in parts if part.strip()]


@sgl.function
def relevance(s: ProgramState, part: str, question: str) -> None:
    s += "Text: " + part + "\n\nQuestion: " + question
    s += "\nDoes the text answer the question? " + sgl.select("answers", ["yes", "no"])


@sgl.function
def quote(s: ProgramState, part: str, question: str) -> Answer:
    s += "Text: " + part + "\n\nQuestion: " + question
    s += '\nThe words of the text that say it: "'
    s += sgl.gen("quote", max_tokens=48, temperature=0.0, substring_of=part)
    s += '"\nSo in short:' + sgl.gen("answer", max_tokens=32, stop="\n", temperature=0.0)
    return Answer(s["quote"], s["answer"])


def ask(document: str, question: str, backend: sgl.Backend) -> Answer:
    """The answer out of the part that is most likely to have it."""
    parts = parts_of(document)
    rows = [{"part": part, "question": question} for part in parts]
    states = relevance.run_batch(rows, backend=backend, on_error="raise")
    sure = [state.get_meta_info("answers")["probabilities"][0] for state in states]
    best = parts[max(range(len(parts)), key=sure.__getitem__)]
    found: Answer = quote.run(best, question, backend=backend).ret_value
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="QUESTION")
    parser.add_argument("--file", type=Path, default=LICENSE, help="a text file")
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    document = options.file.read_text(encoding="utf-8")
    with Runtime(options.model) as runtime:
        for question in options.questions or QUESTIONS:
            found = ask(document, question, runtime)
            print(f"{question}\n    quote:  {found.quote!r}\n    answer:{found.answer}")


if __name__ == "__main__":
    main()
