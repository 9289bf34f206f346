"""Typed records out of real documents: the metadata of every distribution installed here.

    python examples/extract_packages.py [--limit N] [--model FOLDER] [--json]

Each document is a summary, the first part of a description and the classifiers, all written by the
package's authors; name, version, licence and Python requirement are cut out of the header, and the
model has to find them. What it says is compared with the header afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import Distribution, distributions
from typing import Annotated, Any

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

import sgdsl as sgl
from sgdsl import BatchInterrupted, ProgramState, Runtime

DESCRIPTION_CHARS = 350
MAX_TOKENS = 160
NUM_SERIAL = 3
"""Rows of the sample that is run one after another: they take long."""


class License(StrEnum):
    MIT = "MIT"
    BSD = "BSD"
    APACHE = "Apache"
    MPL = "MPL"
    GPL = "GPL"
    PSF = "PSF"
    ISC = "ISC"
    OTHER = "other"


class Status(StrEnum):
    PLANNING = "planning"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"
    MATURE = "mature"
    UNKNOWN = "unknown"


class Package(BaseModel):
    name: str = Field(min_length=1, max_length=40)
    version: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9a-z]+){1,3}$")] | None
    license: License
    topics: list[Annotated[str, Field(min_length=2, max_length=30)]] = Field(max_length=5)
    status: Status
    min_python: Annotated[str, Field(pattern=r"^[23]\.[0-9]{1,2}$")] | None


INSTRUCTION = """\
Write one JSON record about each Python package.

Summary: Fast and friendly parser of TOML files
Description: tomlkite reads and writes TOML. New in 2.4.1: comments survive a round trip. \
Install it with `pip install tomlkite`.
Classifiers: Development Status :: 3 - Alpha; License :: OSI Approved :: Apache Software License; \
Programming Language :: Python :: 3.11; Programming Language :: Python :: 3.12; \
Topic :: File Formats
Record: {"name":"tomlkite","version":"2.4.1","license":"Apache","topics":["File Formats"],\
"status":"alpha","min_python":"3.11"}

Summary: Colour maps for scientific plots
Description: # colour-shades The package colour-shades brings forty perceptually uniform colour \
maps to matplotlib.
Classifiers: Development Status :: 4 - Beta; Intended Audience :: Science/Research; \
License :: OSI Approved :: BSD License; Programming Language :: Python :: 3.9; \
Programming Language :: Python :: 3.10; Topic :: Scientific/Engineering :: Visualization
Record: {"name":"colour-shades","version":null,"license":"BSD","topics":["Visualization"],\
"status":"beta","min_python":"3.9"}

Summary: Queues on top of PostgreSQL
Description: pgqueue [![docs](https://img.shields.io/docs.svg)] A small job queue that needs \
nothing but a database.
Classifiers: Development Status :: 5 - Production/Stable; Intended Audience :: Developers; \
License :: OSI Approved :: MIT License; Programming Language :: Python :: 3 :: Only; \
Programming Language :: Python :: 3.8; Programming Language :: Python :: 3.9; Topic :: Database; \
Topic :: Software Development :: Libraries
Record: {"name":"pgqueue","version":null,"license":"MIT","topics":["Database","Libraries"],\
"status":"stable","min_python":"3.8"}

"""


@sgl.function
def extract(s: ProgramState, document: str) -> None:
    s += INSTRUCTION + document
    s += "Record: " + sgl.gen("record", max_tokens=MAX_TOKENS, temperature=0.0, type=Package)


@dataclass(frozen=True)
class Document:
    text: str
    truth: dict[str, object]


def read_documents(limit: int | None = None) -> list[Document]:
    """Every installed distribution, by name; what the header says is the truth."""
    found = sorted(distributions(), key=lambda dist: dist.metadata["Name"].lower())
    unique = {dist.metadata["Name"].lower(): dist for dist in found}
    return [read_document(dist) for dist in list(unique.values())[:limit]]


def read_document(dist: Distribution) -> Document:
    header: Any = dist.metadata
    description = header.get_payload() or header.get("Description") or ""
    classifiers: list[str] = header.get_all("Classifier") or []
    text = (
        f"Summary: {header.get('Summary', '')}\n"
        f"Description: {' '.join(description.split())[:DESCRIPTION_CHARS]}\n"
        f"Classifiers: {'; '.join(classifiers)}\n"
    )
    return Document(text, truth_of(header, classifiers, text))


def truth_of(header: Any, classifiers: Sequence[str], text: str) -> dict[str, object]:
    """What the header says, in the record's terms. A version counts only if the text states it."""
    licenses = [header.get("License-Expression"), header.get("License"), *classifiers]
    status = next((c for c in classifiers if c.startswith("Development Status")), "")
    python = re.search(r"[23]\.\d+", header.get("Requires-Python") or "")
    return {
        "name": header["Name"].lower().replace("_", "-"),
        "version": header["Version"] if header["Version"] in text else None,
        "license": next(filter(None, map(license_family, licenses)), License.OTHER),
        "topics": {c.split(" :: ")[-1].lower() for c in classifiers if c.startswith("Topic")},
        "status": next((s for s in Status if s.value in status.lower()), Status.UNKNOWN),
        "min_python": python.group() if python else None,
    }


def license_family(text: str | None) -> License | None:
    words = (text or "").splitlines()[:1]
    if not words or (" :: " in words[0] and not words[0].startswith("License")):
        return None
    names = [("mozilla", License.MPL), ("python software", License.PSF)]
    names += [(family.value.lower(), family) for family in License if family is not License.OTHER]
    return next((family for name, family in names if name in words[0].lower()), None)


def agreement(record: Package, truth: dict[str, object]) -> int:
    """How many of the six fields are what the header says; of topics, one that it has is enough."""
    topics = truth["topics"]
    assert isinstance(topics, set)
    found = {topic.lower() for topic in record.topics}
    same = {
        "name": record.name.lower().replace("_", "-"),
        "version": record.version,
        "license": record.license,
        "topics": topics if topics & found or topics == found else found,
        "status": record.status,
        "min_python": record.min_python,
    }
    return sum(same[name] == truth[name] for name in same)


def run_rows(
    documents: Sequence[Document], runtime: Runtime, *, progress: bool
) -> tuple[list[ProgramState], float]:
    """The states of all rows and the wall seconds they took. Ctrl-C keeps what is finished."""
    rows = [{"document": document.text} for document in documents]
    began = time.perf_counter()
    try:
        states = extract.run_batch(rows, backend=runtime, progress_bar=progress)
    except BatchInterrupted as stopped:
        states = stopped.states
    return states, time.perf_counter() - began


def serial_seconds_per_row(documents: Sequence[Document], model: str | None) -> float:
    """The same job one row after another, with the prefix cache off."""
    with Runtime(model, prefix_cache=False) as runtime:
        began = time.perf_counter()
        for document in documents:
            extract.run(document=document.text, backend=runtime).sync()
        return (time.perf_counter() - began) / len(documents)


def show_records(console: Console, records: Sequence[Package]) -> None:
    table = Table("name", "version", "license", "status", "python", "topics")
    for r in records:
        cells = [r.name, r.version, r.license.value, r.status.value, r.min_python]
        table.add_row(*(cell or "-" for cell in cells), ", ".join(r.topics))
    console.print(table)


def show_unfinished(console: Console, states: Sequence[ProgramState]) -> None:
    """The rows without a record, and why."""
    for index, state in enumerate(states):
        if state.outcome is not None and state.outcome.status != "ok":
            console.print(f"row {index} {state.outcome.status}: {state.error()}", markup=False)


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of documents; give 1 or more")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every row has a record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=count, help="only the first N documents")
    parser.add_argument("--model", help="a folder in Hugging Face format, or a name")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args(arguments)
    console = Console()
    documents = read_documents(args.limit)
    with Runtime(args.model) as runtime:
        console.print(runtime.summary)
        states, wall_s = run_rows(documents, runtime, progress=True)
        stats = runtime.stats()
    done = [
        (state["record"], document)
        for state, document in zip(states, documents, strict=True)
        if state.outcome is not None and state.outcome.status == "ok"
    ]
    show_records(console, [record for record, _ in done[:12]])
    show_unfinished(console, states)
    complete = len(done) == len(documents)
    sample = documents[:: max(1, len(documents) // NUM_SERIAL)][:NUM_SERIAL]
    serial_s = serial_seconds_per_row(sample, args.model) if complete else None
    agree = sum(agreement(record, document.truth) for record, document in done)
    report = {
        "rows": len(documents),
        "valid": len(done),
        "agree": round(agree / max(1, 6 * len(done)), 4),
        "tokens_per_s": round(stats.completion_tokens / wall_s, 1),
        "cache_hit_rate": round(stats.cached_tokens / max(1, stats.prompt_tokens), 4),
        "wall_s": round(wall_s, 2),
        "speedup_serial": round(serial_s * len(documents) / wall_s, 2) if serial_s else None,
    }
    for name, value in report.items():
        console.print(f"{name:>16}  {value}")
    if args.json:
        print(json.dumps(report))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
