"""A dry run: what a job would ask, and what it would take.

Owns that text. It computes a few rows for the estimate, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import monotonic

from grammars import explain
from runtime.jobs.extract import Plan
from runtime.jobs.row import Row
from sgdsl.backends.base import Backend

SHOWN, PROBED = 2, 8
"""Rows whose prompts are shown, and that are computed."""


def show(plan: Plan, backend: Backend) -> str:
    rows = list(islice(plan.rows(), PROBED))
    good = [row for row in rows if not row.fault and set(plan.asked.columns) <= set(row.columns)]
    told = [f"input: {plan.source.name}, {_rows(plan.source.num_rows)}"]
    told += _constraint(plan, backend)
    told += [f"row {row.number}: {row.fault}" for row in rows if row.fault]
    told += _probe(plan, backend, good)
    return "\n".join(told)


def _rows(num_rows: int | None) -> str:
    return "rows are not counted ahead" if num_rows is None else f"{num_rows:,} rows"


def _constraint(plan: Plan, backend: Backend) -> list[str]:
    constraint = plan.asked.constraint
    if constraint is None:
        return []
    tokenizer = getattr(backend, "tokenizer", None)
    found = explain(constraint, None if tokenizer is None else tokenizer.vocabulary, num_samples=1)
    least = f"{found.min_bytes} bytes" if found.min_tokens is None else f"{found.min_tokens} tokens"
    told = [f"constraint: supported, at least {least}, of at most {plan.options.max_tokens} tokens"]
    told += [f"  {note}" for note in found.annotations]
    return told + [f"  such as {text}" for text in found.samples]


def _probe(plan: Plan, backend: Backend, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return ["there is no row to show"]
    began = monotonic()
    states = plan.asked.program.run_batch(
        [plan.asked.arguments(row.columns) for row in rows], backend=backend
    )
    seconds = (monotonic() - began) / len(rows)
    told = []
    for row, state in list(zip(rows, states, strict=True))[:SHOWN]:
        told += [
            f"--- row {row.number}",
            state.text() if state.error() is None else str(state.error()),
        ]
    nodes = [node for state in states for node in state.explain().nodes]
    prompts = [node.prompt_tokens for node in nodes if node.prompt_tokens is not None]
    outputs = [node.completion_tokens for node in nodes if node.completion_tokens is not None]
    told.append("---")
    if prompts and outputs:
        told.append(
            f"{len(rows)} rows computed: prompts of {min(prompts):,} to {max(prompts):,} tokens, "
            f"outputs of {min(outputs):,} to {max(outputs):,}, {seconds:.2f} s a row"
        )
    if plan.source.num_rows is not None and plan.options.choosing.is_all:
        told.append(f"all rows: at most some {plan.source.num_rows * seconds / 60:,.0f} min")
    return told
