"""Our constraint engine over a corpus of constraints, and beside it those of others, in one run.

    python -m benchmarks grammars [--quick] [--json] [--model FOLDER] [--only NAME ...]
                                  [--engines NAME ...] [--seconds N]

Every engine runs in a process of its own, on the same cases, tokenizer and texts: compact JSON, on
one thread. The others need `make bench-grammars`, which puts them into an environment of their own;
one that is missing is named and left out. What an engine refuses, does not finish in time or
crashes on is counted.
Times are CPU seconds of the thread (of the process for compiles), medians, 99th percentiles and
maxima over the corpus. Masks are all along the texts, as they come in decoding: those of states
that are new, and those of states that an earlier text came by; warm ones are those along the valid
texts again. Of ours those that are new are also told apart. The ratios are what counts. `--quick`
takes a sample of the corpus.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.corpus import Case, corpus
from benchmarks.engine_runs import EngineMissingError, Outcome, run_engine
from benchmarks.engines import PEERS
from benchmarks.grammar_details import (
    BATCH,
    InVocabulary,
    batch_seconds,
    compiled,
    decode_seconds,
    in_vocabulary,
    jumps,
    profile_of,
    random_walks,
)
from benchmarks.measures import spread_of
from benchmarks.vocabularies import NamedVocabulary, of_model, synthetic, tekken
from grammars import Compiler, Vocabulary
from runtime.models import resolve_model

OURS = "ours"
SLOW_COMPILE_S = 0.020
SLOW_MASK_S = 0.005


def side_by_side(
    cases: Sequence[Case], named: NamedVocabulary, args: argparse.Namespace, console: Console
) -> tuple[dict[str, list[Outcome]], dict[str, str]]:
    """What each engine made of the corpus, and why those that are missing are."""
    assert named.encode is not None
    encode = named.encode
    texts = [[encode(text) for text, _ in case.texts()] for case in cases]
    found, missing = {}, {}
    for name in [OURS, *args.engines]:
        began = time.perf_counter()
        try:
            found[name] = run_engine(name, cases, texts, named.file, seconds=args.seconds)
        except EngineMissingError as error:
            missing[name] = str(error)
        console.print(f"{name}: {time.perf_counter() - began:.0f} s")
    return found, missing


def summary_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One engine's figures: times in microseconds (compiles in milliseconds), and counts."""
    ended = Counter(outcome.ended for outcome in outcomes)
    done = [outcome for outcome in outcomes if outcome.ended == "done"]
    compiles = [outcome.compile for outcome in outcomes if outcome.compile]
    figures: dict[str, Any] = {
        "done": ended["done"],
        "refused": ended["refused"],
        "slow": ended["slow"],
        "crashed": ended["crashed"],
        "texts": sum(len(outcome.verdicts) for outcome in done),
        "wrongly_accepted": sum(len(outcome.wrongly_accepted) for outcome in done),
        "wrongly_rejected": sum(len(outcome.wrongly_rejected) for outcome in done),
    }
    for clock, place in (("cpu", 0), ("wall", 1)):
        for name, scale, times in (
            ("compile_ms", 1e3, [times[place] for times in compiles]),
            ("mask_us", 1e6, [times[place] for outcome in done for times in outcome.masks]),
            ("warm_us", 1e6, [times[place] for outcome in done for times in outcome.warm]),
            ("accept_us", 1e6, [times[place] for outcome in done for times in outcome.accepts]),
        ):
            for part, value in asdict(spread_of(times)).items():
                figures[f"{clock}_{name}_{part}"] = round(value * scale, 2)
    return figures


ROWS = (
    ("compile, p50", "ms", "cpu_compile_ms_p50"),
    ("compile, p99", "ms", "cpu_compile_ms_p99"),
    ("compile, most", "ms", "cpu_compile_ms_most"),
    ("mask, p50", "µs", "cpu_mask_us_p50"),
    ("mask, p99", "µs", "cpu_mask_us_p99"),
    ("mask, most", "µs", "cpu_mask_us_most"),
    ("mask, p50 on the wall", "µs", "wall_mask_us_p50"),
    ("warm mask, p50", "µs", "cpu_warm_us_p50"),
    ("warm mask, p99", "µs", "cpu_warm_us_p99"),
    ("accept, p50", "µs", "cpu_accept_us_p50"),
    ("accept, p99", "µs", "cpu_accept_us_p99"),
)
COUNTS = ("done", "refused", "slow", "crashed", "texts", "wrongly_accepted", "wrongly_rejected")


def table_of(figures: dict[str, dict[str, Any]]) -> Table:
    """The figures side by side; behind those of the others, how many times ours they are."""
    table = Table(title="side by side", title_justify="left")
    for heading in ("", *figures):
        table.add_column(heading, justify="left" if not heading else "right")
    for title, unit, name in ROWS:
        ours = figures.get(OURS, {}).get(name)
        cells = [f"{title} ({unit})"]
        for engine, values in figures.items():
            ratio = f" ({values[name] / ours:.2g}x)" if ours and engine != OURS else ""
            cells.append(f"{values[name]:,.4g}{ratio}")
        table.add_row(*cells)
    for name in COUNTS:
        cells = [str(values[name]) for values in figures.values()]
        table.add_row(name.replace("_", " "), *cells)
    return table


def vocabulary_table(found: Sequence[InVocabulary]) -> Table:
    """Ours in vocabularies of several sizes."""
    table = Table(title="ours, by vocabulary (p50 / p99 / most)", title_justify="left")
    headings = ("tokens", "compile (ms)", "masks (µs)", "new ones (µs)", "warm (µs)", "accept (µs)")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in found:
        cells = [row.name]
        masks = row.masks, row.derived, row.warm, row.accept
        for spread, scale in [(row.compile, 1e3), *((spread, 1e6) for spread in masks)]:
            parts = (spread.p50, spread.p99, spread.most)
            cells.append(" / ".join(f"{value * scale:,.4g}" for value in parts))
        table.add_row(*cells)
    return table


def slow_spots(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Cases whose compile, or one of whose masks, is slow: in milliseconds."""
    compiles = {o.case.name: o.compile[0] for o in outcomes if o.compile}
    masks = {o.case.name: max(cpu for cpu, _ in o.masks) for o in outcomes if o.masks}
    found = {}
    for kind, times, limit in (("compile", compiles, SLOW_COMPILE_S), ("mask", masks, SLOW_MASK_S)):
        slowest = sorted(times.items(), key=lambda pair: -pair[1])
        found[kind] = {name: round(s * 1e3, 1) for name, s in slowest if s > limit}
    return found


def vocabularies_of(named: NamedVocabulary, *, quick: bool) -> list[NamedVocabulary]:
    """The model's own, one of about 128k tokens and one of 256k; only a little larger, if quick."""
    if quick:
        return [named, synthetic(named, 2 * len(named.file.tokens))]
    middle = tekken() or synthetic(named, 131_072)
    return [named, middle, synthetic(middle, 262_144)]


def details_of(cases: Sequence[Case], named: NamedVocabulary, args: argparse.Namespace) -> Any:
    """What only ours is asked; see `grammar_details`."""
    assert named.encode is not None
    vocabulary = Vocabulary(named.file.tokens, eos_token_ids=named.file.stops)
    grammars = compiled(cases, Compiler(vocabulary))
    step = decode_seconds(resolve_model(args.model))
    batch = batch_seconds(grammars, named)
    jumped = jumps(grammars, named.encode)
    walks = random_walks(grammars, per_case=2 if args.quick else 5)
    return {
        "batch_us": round(batch * 1e6, 1),
        "decode_step_ms": round(step * 1e3, 2),
        "batch_share_of_step": round(batch / step, 6) if step else None,
        "forced_share": round(jumped.num_jumped / max(jumped.num_tokens, 1), 4),
        "jumps_not_canonical": jumped.num_wrong,
        "walks": walks.num,
        "walks_invalid": len(walks.invalid),
        "invalid_walks": walks.invalid[:10],
    }


def show(console: Console, report: dict[str, Any]) -> None:
    """The parts of the report that are no tables."""
    details = report["details"]
    console.print(
        f"{BATCH} warm rows in {details['batch_us']} µs, a decode step of {BATCH} rows takes "
        f"{details['decode_step_ms']} ms: {100 * (details['batch_share_of_step'] or 0):.3f} %"
    )
    console.print(
        f"forced tokens {100 * details['forced_share']:.1f} %, jumps that are not canonical "
        f"{details['jumps_not_canonical']}; {details['walks']} random walks, "
        f"{details['walks_invalid']} of them invalid"
    )
    for text in details["invalid_walks"]:
        console.print(f"  invalid: {text}", markup=False)
    for part, shares in report["profile"].items():
        listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
        console.print(f"{part} by module: {listed}")
    for part, names in report["slow"].items():
        console.print(f"slow {part} (ms): {', '.join(f'{n} {ms}' for n, ms in names.items())}")
    for engine, lines in report["not_done"].items():
        for line in lines:
            console.print(f"  {engine}: {line}", markup=False)
    for engine, reason in report["missing"].items():
        console.print(f"{engine} is missing: {reason}")


def not_done(outcomes: Sequence[Outcome]) -> list[str]:
    """What was refused or wrong, a line for each case."""
    found = []
    for outcome in outcomes:
        if outcome.ended != "done":
            found.append(f"{outcome.case.name} {outcome.ended}: {outcome.reason[:100]}")
        for verdict, texts in (
            ("accepts", outcome.wrongly_accepted), ("rejects", outcome.wrongly_rejected),
        ):  # fmt: skip
            found += [f"{outcome.case.name} {verdict} {text[:100]}" for text in texts]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grammars", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="a sample of the corpus")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--model", help="a folder in Hugging Face format, or a name")
    parser.add_argument("--only", nargs="+", default=[], help="cases whose names contain one")
    parser.add_argument(
        "--engines", nargs="*", default=list(PEERS), choices=list(PEERS), help="beside ours"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="for one case (20)")
    args = parser.parse_args(arguments)
    console = Console()
    console.width = max(console.width, 130)
    began = time.perf_counter()
    cases = [c for c in corpus() if not args.only or any(part in c.name for part in args.only)]
    if args.quick:
        cases = cases[::8]
    named = of_model(resolve_model(args.model))
    outcomes, missing = side_by_side(cases, named, args, console)
    figures = {name: summary_of(found) for name, found in outcomes.items()}
    sizes = [in_vocabulary(cases, each) for each in vocabularies_of(named, quick=args.quick)]
    report = {
        "cases": len(cases),
        "kinds": dict(Counter(case.kind for case in cases)),
        "engines": figures,
        "missing": missing,
        "not_done": {name: not_done(found) for name, found in outcomes.items()},
        "slow": slow_spots(outcomes[OURS]),
        "vocabularies": [asdict(size) for size in sizes],
        "details": details_of(cases, named, args),
        "profile": profile_of(cases, named),
        "wall_s": round(time.perf_counter() - began, 1),
    }
    console.print(f"{len(cases)} cases: {report['kinds']}")
    console.print(table_of(figures))
    console.print(vocabulary_table(sizes))
    show(console, report)
    if args.json:
        print(json.dumps(report))
