"""The likeliest of four options behind examples of 700 tokens: which licence a package has."""

from __future__ import annotations

from typing import Any

import sgdsl as sgl
from benchmarks.workloads.texts import documents, drawn_documents
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload, equal_values
from examples.extract_packages import Document
from sgdsl import ProgramState

OPTIONS = (" MIT", " BSD", " Apache", " something else")
SHOT_CHARACTERS = 2_450
"""700 tokens of such text, about."""


def option_of(document: Document) -> str:
    name = f" {document.truth['license']}"
    return name if name in OPTIONS else OPTIONS[-1]


def shots() -> tuple[str, int]:
    """Examples, and from how many documents they are."""
    text, count = "Which license does each package have?\n\n", 0
    while len(text) < SHOT_CHARACTERS:
        document = documents()[count % len(documents())]
        text += f"{_asked(document)}{option_of(document)}\n\n"
        count += 1
    return text, count


def _asked(document: Document) -> str:
    return document.text[:600].rstrip() + "\nLicense:"


@sgl.function
def classify(s: ProgramState[Any], shots: str, document: str) -> None:
    s += shots + document + sgl.select("license", list(OPTIONS))


def rows(count: int, seed: int) -> list[Row]:
    shared, num_shots = shots()
    return [
        Row({"shots": shared, "document": _asked(each)}, {"license": option_of(each)})
        for each in drawn_documents(count, seed, skip=num_shots)
    ]


def judge(texts: Texts, row: Row) -> Verdict:
    (chosen,) = texts["license"]
    if chosen not in OPTIONS:
        return Verdict(False, 0, 1)
    return equal_values({"license": chosen}, row.truth)


SELECT = Workload("select", classify, rows, judge, num_quick=3)
