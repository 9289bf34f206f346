"""`sgdsl extract`: a job from the command line.

Owns the command's options, its exit codes, and what it prints at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grammars import Choices, GrammarError, JsonSchema, Regex
from runtime.config import DTYPES
from runtime.jobs.choosing import Choosing, Condition
from runtime.jobs.extract import MAX_TOKENS, Options, Plan
from runtime.jobs.reading.open import open_source
from runtime.jobs.report import Report
from runtime.jobs.writing.records import OUTPUT
from runtime.named_objects import load_object
from sgdsl.errors import UsageError

ENDED, FAILED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", help="a file (.jsonl, .csv, .tsv, .parquet), a folder of texts, a saved data set"
    )
    parser.add_argument("-o", "--output", type=Path, help="a file (.jsonl, .csv, .parquet)")
    asked = parser.add_argument_group("what is asked of every row (one of these)")
    asked.add_argument(
        "--schema", metavar="FILE", help="a JSON Schema, or MODULE:NAME of a type in Python"
    )
    asked.add_argument("--regex", metavar="PATTERN", help="a text that matches it")
    asked.add_argument("--choices", metavar="A,B,...", help="the likeliest of these texts")
    asked.add_argument(
        "--program", metavar="MODULE:NAME", help="a program; its arguments are columns"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--prompt", metavar="FILE", help="a text with columns in braces: {text}")
    how.add_argument(
        "--examples", metavar="FILE", help="rows with an output each, which come before every row"
    )
    how.add_argument("--chat", action="store_true", help="as messages of a conversation")
    how.add_argument("--max-tokens", type=_positive, default=MAX_TOKENS, help=f"({MAX_TOKENS})")
    how.add_argument("--temperature", type=float, default=0.0, help="(0: greedy)")
    how.add_argument("--seed", type=int, default=0, help="of draws (0)")
    how.add_argument("--row-timeout", type=float, metavar="SECONDS", help="for each row")
    how.add_argument("--into", default=OUTPUT, metavar="COLUMN", help=f"({OUTPUT})")
    rows = parser.add_argument_group("which rows")
    rows.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="COLUMN=VALUE, or != < <= > >= ~ (a regular expression); all of them, if repeated",
    )
    rows.add_argument("--sample", type=float, metavar="SHARE", help="of the rows, always the same")
    rows.add_argument("--limit", type=_positive, metavar="N", help="the first N of them")
    again = parser.add_argument_group("a job that was begun before")
    again.add_argument("--retry-failed", action="store_true", help="compute failed rows again")
    again.add_argument(
        "--force", action="store_true", help="go on though what is asked has changed"
    )
    model = parser.add_argument_group("the model")
    model.add_argument("--model", metavar="NAME", help="a folder, a hub id, or the default model")
    model.add_argument("--dtype", choices=DTYPES, default="auto", help="of the weights")
    model.add_argument("--device", default="auto", help="cpu, cuda, ...")
    model.add_argument("--url", help="of a server of ours, which runs the model instead")
    end = parser.add_argument_group("the end")
    end.add_argument(
        "--max-error-rate",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="exit code 1 if more rows than that have failed (0)",
    )
    end.add_argument("--json", action="store_true", help="the report as one line of JSON")
    end.add_argument("--quiet", action="store_true", help="show nothing while it runs")
    end.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would be asked and how long it would take, and write nothing",
    )


def run(options: argparse.Namespace) -> int:
    """0: all rows have ended, and few enough have failed. 1: not so."""
    if not 0 <= options.max_error_rate <= 1:
        raise UsageError(f"--max-error-rate {options.max_error_rate} is no share from 0 to 1")
    if options.output is None and not options.dry_run:
        raise UsageError("say where the records go: -o out.jsonl")
    plan = Plan(options.input, _asked(options), _options(options))
    if options.dry_run:
        from runtime.jobs.dry_run import show

        with _backend(options) as backend:
            print(show(plan, backend))
        return ENDED
    from runtime.jobs.display import shown

    with _backend(options) as backend:
        report = plan.run(backend, None if options.quiet else shown)
    if options.json:
        print(json.dumps(report.figures()))
    else:
        print(told(report))
    return ENDED if report.is_complete and report.error_rate <= options.max_error_rate else FAILED


def told(report: Report) -> str:
    """For a terminal."""
    counts = ", ".join(f"{num:,} {status}" for status, num in report.counts.items() if num)
    tokens = (
        f"{report.completion_tokens:,} tokens written behind {report.prompt_tokens:,}, of which "
        f"{report.cache_hit_rate:.0%} were cached; {report.wall_s:,.1f} s"
    )
    lines = [
        f"{report.num_rows:,} rows: {counts or 'none'}",
        f"{report.num_same:,} equal another one, {report.num_resumed:,} were done before",
        tokens,
    ]
    if not report.is_complete:
        lines.append(f"not complete: run the same command again to go on from {report.journal}")
    lines.append(f"records: {report.output}")
    return "\n".join(lines)


def _options(options: argparse.Namespace) -> Options:
    return Options(
        prompt=None if options.prompt is None else _read(options.prompt),
        examples=() if options.examples is None else _examples(options.examples),
        chat=options.chat,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
        choosing=Choosing(
            tuple(map(Condition.parse, options.where)), options.sample, options.limit
        ),
        output=options.output,
        into=options.into,
        force=options.force,
        retry_failed=options.retry_failed,
        row_timeout_s=options.row_timeout,
    )


def _asked(options: argparse.Namespace) -> Any:
    given = [name for name in ("schema", "regex", "choices", "program") if getattr(options, name)]
    if len(given) != 1:
        raise UsageError(
            "say what is asked by one of --schema, --regex, --choices and --program; "
            f"{len(given)} were given"
        )
    try:
        return _named(options)
    except GrammarError as error:
        raise UsageError(f"--{given[0]}: {error}") from error


def _named(options: argparse.Namespace) -> Any:
    if options.regex:
        return Regex(options.regex)
    if options.choices:
        return Choices([text.strip() for text in options.choices.split(",")])
    if options.program:
        return load_object(options.program, "--program")
    path = Path(options.schema)
    if not path.exists() and ":" in options.schema:
        return load_object(options.schema, "--schema")
    return JsonSchema(_read(options.schema))


def _backend(options: argparse.Namespace) -> Any:
    if options.url:
        from sgdsl.backends.remote import RuntimeEndpoint

        return RuntimeEndpoint(options.url)
    from runtime.local import Runtime

    return Runtime(options.model, dtype=options.dtype, device=options.device)


def _examples(path: str) -> Sequence[Mapping[str, Any]]:
    rows = list(open_source(path).rows())
    faults = [row.fault for row in rows if row.fault]
    if faults:
        raise UsageError(f"{path}: {faults[0]}")
    return [row.columns for row in rows]


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"{file!r} cannot be read: {reason}") from None


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return number
