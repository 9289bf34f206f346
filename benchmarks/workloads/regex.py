"""One line in a fixed form out of package metadata: `name | licence | Python version`."""

from __future__ import annotations

import re
from typing import Any

import sgdsl as sgl
from benchmarks.workloads.texts import documents, drawn_documents
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload, equal_values
from examples.extract_packages import Document, License
from sgdsl import ProgramState

LICENSES = "|".join(family.value for family in License)
PATTERN = rf"[a-z0-9]+(-[a-z0-9]+){{0,3}} \| ({LICENSES}) \| (none|[23]\.[0-9]{{1,2}})"
MAX_TOKENS = 48
NUM_SHOTS = 3
DESCRIPTION_CHARACTERS, CLASSIFIER_CHARACTERS = 120, 360


def line_of(document: Document) -> str:
    """What is to be written about a document."""
    truth = document.truth
    return f"{truth['name']} | {License(str(truth['license']))} | {truth['min_python'] or 'none'}"


def shortened(document: Document) -> str:
    """Its three lines: all of the summary, the beginnings of the others."""
    summary, description, classifiers = document.text.splitlines()
    shown = [description[:DESCRIPTION_CHARACTERS], classifiers[:CLASSIFIER_CHARACTERS]]
    return "\n".join([summary, *shown, ""])


def instruction() -> str:
    """With examples: the first documents whose line is in the form."""
    fitting = [each for each in documents() if re.fullmatch(PATTERN, line_of(each))]
    shots = [f"{shortened(each)}Line: {line_of(each)}\n\n" for each in fitting[:NUM_SHOTS]]
    return "Write a line about each package: name | license | oldest Python.\n\n" + "".join(shots)


@sgl.function
def summarize(s: ProgramState[Any], instruction: str, document: str) -> None:
    s += instruction + document + "Line:"
    s += sgl.gen("line", MAX_TOKENS, temperature=0.0, regex=" " + PATTERN, healing=False)


def rows(count: int, seed: int) -> list[Row]:
    shared = instruction()
    return [
        Row({"instruction": shared, "document": shortened(each)}, _truth(each))
        for each in drawn_documents(count, seed, skip=NUM_SHOTS)
    ]


def _truth(document: Document) -> dict[str, Any]:
    return dict(zip(("name", "license", "python"), line_of(document).split(" | "), strict=True))


def judge(texts: Texts, row: Row) -> Verdict:
    (line,) = texts["line"]
    if re.fullmatch(" " + PATTERN, line) is None:
        return Verdict(False, 0, len(row.truth))
    name, license_name, python = line.strip().split(" | ")
    return equal_values({"name": name, "license": license_name, "python": python}, row.truth)


REGEX = Workload("regex", summarize, rows, judge)
