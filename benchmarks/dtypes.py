"""What smaller weights cost and gain, against float32.

    python -m benchmarks dtypes [--rows N] [--json] [--model FOLDER]

Measured for each type that this machine has: the perplexity of this project's tutorial as a ratio
to float32's; the main job: the share of its records' fields that are the same as float32's, and the
CPU time of the process as a ratio to float32's. Greedy throughout.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import sgdsl as sgl
from benchmarks.ours import warm_up
from benchmarks.workloads.extract import EXTRACT
from benchmarks.workloads.workload import Row
from examples.extract_packages import extract
from runtime import Runtime
from runtime.models import resolve_model
from sgdsl.errors import UsageError

TEXT = Path(__file__).parent.parent / "docs" / "tutorial.md"
CHUNK_CHARACTERS = 1_500
DTYPES = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class Measured:
    """nll: mean negative log-probability of a token; records: per row."""

    nll: float
    records: list[dict[str, Any]]
    cpu_s: float


@sgl.function
def read(s: sgl.ProgramState, text: str) -> None:
    s += text + sgl.gen("end", max_tokens=0, return_logprob=True, logprob_start_len=0)


def measure(folder: Path, dtype: str, rows: Sequence[Row]) -> Measured:
    text = TEXT.read_text(encoding="utf-8")
    chunks = [text[i : i + CHUNK_CHARACTERS] for i in range(0, len(text), CHUNK_CHARACTERS)]
    with Runtime(folder, dtype=dtype, share_outputs=False) as runtime:
        states = read.run_batch([{"text": chunk} for chunk in chunks], backend=runtime)
        found = [
            logprob
            for state in states
            for logprob, _, _ in state.get_meta_info("end")["input_token_logprobs"][1:]
        ]
        warm_up(EXTRACT, rows, runtime)
        began = time.process_time()
        done = extract.run_batch([row.arguments for row in rows], backend=runtime)
        cpu_s = time.process_time() - began
    records = [state["record"].model_dump() for state in done]
    return Measured(nll=-sum(found) / len(found), records=records, cpu_s=cpu_s)


@dataclass(frozen=True)
class Against:
    """A type against float32."""

    perplexity: float
    equal_fields: float
    cpu: float


def compare(found: Measured, base: Measured) -> Against:
    pairs = [
        (record[name], other[name])
        for record, other in zip(found.records, base.records, strict=True)
        for name in other
    ]
    return Against(
        perplexity=round(math.exp(found.nll - base.nll), 4),
        equal_fields=round(sum(a == b for a, b in pairs) / len(pairs), 4),
        cpu=round(found.cpu_s / base.cpu_s, 3),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks dtypes", description=__doc__)
    parser.add_argument("--rows", type=int, default=16, help="rows of the main job (16)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--model", help="a folder in Hugging Face format, or a name")
    args = parser.parse_args(arguments)
    console, folder = Console(), resolve_model(args.model)
    rows = EXTRACT.rows(args.rows, 0)
    base = measure(folder, DTYPES[0], rows)
    console.print(f"float32   perplexity {math.exp(base.nll):.2f}, {base.cpu_s:.1f} s of CPU time")
    report = {}
    for dtype in DTYPES[1:]:
        try:
            against = compare(measure(folder, dtype, rows), base)
        except UsageError as error:
            console.print(f"{dtype:9} {error}")
            continue
        report[dtype] = asdict(against)
        console.print(
            f"{dtype:9} perplexity x {against.perplexity}, equal fields {against.equal_fields:.1%},"
            f" CPU time x {against.cpu}"
        )
    if args.json:
        print(json.dumps(report))
