"""How an explanation of a constraint is shown: as text for people, as JSON, as a drawing.

Must not know how it was asked for.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from grammars import Explanation, GrammarError
from grammars.explanation import MAX_TEXTS
from sgdsl.errors import SgdslError

SHOWN_CHARACTERS = 200
"""Of a sample; what is longer ends with an ellipsis."""


class NoDrawingError(SgdslError):
    """There is no automaton, or it is too large to be drawn."""


def write_json(explanation: Explanation) -> None:
    """One JSON object."""
    sys.stdout.write(json.dumps(explanation.to_dict(), indent=2) + "\n")


def write_diagram(explanation: Explanation, *, is_mermaid: bool, max_states: int) -> None:
    """The automaton alone. Raises NoDrawingError."""
    if explanation.faults:
        raise NoDrawingError(explanation.faults[0].message)
    draw = explanation.mermaid if is_mermaid else explanation.dot
    try:
        text = draw(max_states=max_states)
    except GrammarError as error:
        raise NoDrawingError(str(error)) from None
    sys.stdout.write(text)


def write_text(explanation: Explanation, title: str) -> None:
    """The report for people."""
    console = Console(highlight=False, soft_wrap=True)
    state = Text("supported", "green") if explanation.is_supported else Text("refused", "red")
    console.print(Text(f"{title}: ").append(state))
    for fault in explanation.faults:
        console.print(Text(f"  {fault.kind}: ", "red").append(Text(fault.message, "not red")))
    if explanation.has_more_faults:
        console.print("  there may be more; check again when these are mended")
    if explanation.is_supported:
        for name, value in _facts(explanation):
            console.print(Text(f"  {name:<17}", "bold").append(Text(value, "not bold")))
    _list(console, "says nothing, so nothing of it is enforced", list(_annotations(explanation)))
    _list(console, "samples", [_shown(sample) for sample in explanation.samples])


def _list(console: Console, title: str, lines: list[str]) -> None:
    if lines:
        console.print(Text(f"  {title}", "bold"))
        for line in lines:
            console.print(Text(f"    {line}"))


def _facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    shortest = [f"{explanation.min_bytes} bytes"] if explanation.min_bytes is not None else []
    if explanation.min_tokens is not None:
        shortest.insert(0, f"{explanation.min_tokens} tokens")
    yield "shortest text", ", ".join(shortest) or "not known"
    yield "longest text", _longest(explanation)
    yield "number of texts", _number(explanation)
    more = "" if explanation.is_whole else "more than "
    yield "states", f"{more}{explanation.num_states:,}"
    yield "compile", f"{explanation.num_expressions:,} expressions, {explanation.seconds:.3f} s"


def _longest(explanation: Explanation) -> str:
    if explanation.max_bytes is not None:
        at_most = "" if explanation.is_max_exact else "at most "
        return f"{at_most}{explanation.max_bytes:,} bytes"
    return "not bounded" if explanation.is_finite is False else "not known"


def _number(explanation: Explanation) -> str:
    if explanation.num_texts is not None:
        if explanation.num_texts >= MAX_TEXTS:
            return f"{MAX_TEXTS:.0e} or more".replace("e+", "e")
        return f"{explanation.num_texts:,}"
    if explanation.is_finite is None:
        return "not known"
    return "finite, too many to count" if explanation.is_finite else "infinite"


def _annotations(explanation: Explanation) -> Iterator[str]:
    """What is suspicious line by line, the standard's own annotations in one."""
    counts: Counter[str] = Counter()
    for note in explanation.annotations:
        if note.kind == "annotation":
            counts[note.name] += 1
            continue
        hint = f"; did you mean {note.hint!r}?" if note.hint else ""
        what = "an unknown keyword" if note.kind == "unknown keyword" else f"format {note.name!r}"
        yield f"{note.pointer}: {what}{hint}"
    if counts:
        yield ", ".join(f"{name} ({count})" for name, count in counts.items())


def _shown(text: str) -> str:
    """A sample in one line."""
    line = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
