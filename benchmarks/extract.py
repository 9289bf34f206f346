"""The main job against the ways people do it today, as ratios in one run.

    python -m benchmarks [--rows N] [--quick] [--json] [--model FOLDER]

Measured, in this order, in one process and on the same rows:
  engine    the whole job, batched, prefixes shared
  serial    the same rows one after another, prefix cache off, in the same engine
  static    transformers' `generate`, batches of 16 with left padding, unconstrained, the same
            number of output tokens (the engine's mean, so that no batch waits for its longest row)
`--quick` takes a sample of the rows for the slow two. Absolute times depend on the machine and on
who else is using it; the ratios are what counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.extract_packages import INSTRUCTION, Document, extract, read_documents
from runtime import Runtime
from runtime.models import resolve_model
from sgdsl import MockBackend

STATIC_BATCH = 16


@dataclass(frozen=True)
class Engine:
    """What the batched run did and took."""

    rows_per_s: float
    wall_s: float
    output_tokens: int
    cache_hit_rate: float
    best_hit_rate: float
    schedule_share: float
    programs_share: float
    frontend_share: float
    mask_share: float
    sample_share: float
    forward_share: float

    @property
    def overhead_share(self) -> float:
        """Frontend and scheduler: all that is neither model, nor constraint, nor draw."""
        return self.schedule_share + self.programs_share + self.frontend_share


def rows_of(num_rows: int) -> list[Document]:
    """The installed packages' documents; when there are too few, again from the start."""
    documents = read_documents()
    return [documents[index % len(documents)] for index in range(num_rows)]


def measure_engine(documents: Sequence[Document], folder: Path) -> Engine:
    rows = [{"document": document.text} for document in documents]
    frontend_s = measure_frontend(rows)
    with Runtime(folder, share_outputs=False) as runtime:  # rows may come twice
        warm_up(runtime, documents)
        before, tokens_before = runtime.stats(), asdict(runtime.step_stats)
        began = time.perf_counter()
        states = extract.run_batch(rows, backend=runtime)
        wall_s = time.perf_counter() - began
        after = runtime.stats()
        spent = {
            name: value - tokens_before[name] for name, value in asdict(runtime.step_stats).items()
        }
        prompt = len(runtime.tokenizer.encode(INSTRUCTION))
    bad = [
        state.outcome for state in states if state.outcome is None or state.outcome.status != "ok"
    ]
    assert not bad, f"every row of the job is valid: {bad[:1]}"
    prompt_tokens = after.prompt_tokens - before.prompt_tokens
    return Engine(
        rows_per_s=len(rows) / wall_s,
        wall_s=wall_s,
        output_tokens=after.completion_tokens - before.completion_tokens,
        cache_hit_rate=(after.cached_tokens - before.cached_tokens) / prompt_tokens,
        best_hit_rate=(len(rows) - 1) * prompt / prompt_tokens,
        schedule_share=spent["schedule_s"] / wall_s,
        programs_share=spent["programs_s"] / wall_s,
        frontend_share=frontend_s / wall_s,
        mask_share=spent["mask_s"] / wall_s,
        sample_share=spent["sample_s"] / wall_s,
        forward_share=spent["forward_s"] / wall_s,
    )


def warm_up(runtime: Runtime, documents: Sequence[Document]) -> None:
    """One row, so that no first-time cost is measured; its prefixes are forgotten again."""
    extract.run(document=documents[0].text, backend=runtime).sync()
    runtime.flush_cache()


def measure_frontend(rows: Sequence[dict[str, str]]) -> float:
    """Seconds that the frontend needs for these rows when a backend answers at once."""
    record = (
        '{"name":"x","version":null,"license":"MIT","topics":[],"status":"beta","min_python":null}'
    )
    backend = MockBackend(default=record)
    extract.run_batch(rows[:1], backend=backend)
    began = time.perf_counter()
    extract.run_batch(rows, backend=backend)
    return time.perf_counter() - began


def measure_serial(documents: Sequence[Document], folder: Path) -> float:
    """Rows per second, one after another, nothing shared."""
    with Runtime(folder, prefix_cache=False) as runtime:
        warm_up(runtime, documents)
        began = time.perf_counter()
        for document in documents:
            extract.run(document=document.text, backend=runtime).sync()
        return len(documents) / (time.perf_counter() - began)


def measure_static(documents: Sequence[Document], folder: Path, num_new: int) -> float:
    """Rows per second of transformers' static batches, the documents in the order they came."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def generate(texts: list[str], count: int) -> None:
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        out = model.generate(**inputs, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        assert out.shape[1] == inputs["input_ids"].shape[1] + count, "all rows write as much"

    texts = [f"{INSTRUCTION}{document.text}Record: " for document in documents]
    generate(texts[:1], 2)
    began = time.perf_counter()
    for start in range(0, len(texts), STATIC_BATCH):
        generate(texts[start : start + STATIC_BATCH], num_new)
    return len(texts) / (time.perf_counter() - began)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=64, help="rows of the main job (64)")
    parser.add_argument("--quick", action="store_true", help="measure the slow ways on a sample")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--model", help="a folder in Hugging Face format, or a name")
    args = parser.parse_args(arguments)
    console = Console()
    folder = resolve_model(args.model)
    documents = rows_of(args.rows)
    num_serial = min(len(documents), 4 if args.quick else 16)
    num_static = min(len(documents), STATIC_BATCH if args.quick else len(documents))
    engine = measure_engine(documents, folder)
    peak_rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # before the others
    console.print(f"engine   {engine.rows_per_s:8.3f} rows/s  ({engine.wall_s:.1f} s)")
    serial = measure_serial(spread(documents, num_serial), folder)
    console.print(f"serial   {serial:8.3f} rows/s  ({num_serial} rows)")
    num_new = round(engine.output_tokens / len(documents))
    static = measure_static(spread(documents, num_static), folder, num_new)
    console.print(f"static   {static:8.3f} rows/s  ({num_static} rows, {num_new} tokens each)")
    report = {
        "rows": len(documents),
        "vs_serial": round(engine.rows_per_s / serial, 2),
        "vs_static": round(engine.rows_per_s / static, 2),
        "overhead_share": round(engine.overhead_share, 4),
        **{name: round(value, 4) for name, value in asdict(engine).items()},
        "output_tokens_per_s": round(engine.output_tokens / engine.wall_s, 1),
        "threads": torch.get_num_threads(),
        "peak_rss_mib": peak_rss_mib,
    }
    for name, value in report.items():
        console.print(f"{name:>20}  {value}")
    if args.json:
        print(json.dumps(report))


def spread(documents: Sequence[Document], count: int) -> list[Document]:
    """`count` of the documents, evenly over their order."""
    return [documents[index * len(documents) // count] for index in range(count)]
