"""`extract`: one call from a data set to its records.

Owns what may be asked for and how a job is put together from it: source, program, journal, backend,
output. Each has its own file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from grammars import Choices, Constraint, GrammarError, JsonSchema, Regex, TypeOf, explain
from runtime.jobs.asked import Asked, asked_of_program, asked_of_text
from runtime.jobs.choosing import Choosing, Condition
from runtime.jobs.feed import Feed
from runtime.jobs.interrupts import stopped_by_ctrl_c
from runtime.jobs.job import Job, model_of
from runtime.jobs.journal import Journal, journal_of
from runtime.jobs.prompt import Example, Prompt, default_template
from runtime.jobs.reading.open import open_source
from runtime.jobs.reading.source import Source
from runtime.jobs.report import Report
from runtime.jobs.row import Row, jsonable
from runtime.jobs.writing.files import check_output, write_records
from runtime.jobs.writing.records import OUTPUT, check_names, records_of
from sgdsl import Program
from sgdsl.backends.base import Backend
from sgdsl.context import backend_for
from sgdsl.errors import UsageError

MAX_TOKENS = 256

Rows = str | Path | Iterable[Mapping[str, Any] | str]
Watch = Callable[[Job, Feed, Source], AbstractContextManager[Any]]
"""What shows a job while it runs."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """All that `extract` takes besides its data set and what is asked."""

    prompt: str | None = None
    examples: Sequence[Mapping[str, Any]] = ()
    chat: bool = False
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    choosing: Choosing = field(default_factory=Choosing)
    output: Path | None = None
    into: str = OUTPUT
    force: bool = False
    retry_failed: bool = False
    row_timeout_s: float | None = None


def extract(
    dataset: Rows,
    what: Any,
    *,
    prompt: str | None = None,
    examples: Sequence[Mapping[str, Any]] = (),
    chat: bool = False,
    max_tokens: int = MAX_TOKENS,
    temperature: float = 0.0,
    seed: int = 0,
    where: Sequence[str] = (),
    sample: float | None = None,
    limit: int | None = None,
    output: str | Path | None = None,
    into: str = OUTPUT,
    force: bool = False,
    retry_failed: bool = False,
    row_timeout_s: float | None = None,
    backend: Backend | None = None,
) -> Report:
    """Run `what` on every row of `dataset`; returns what it came to.

    `dataset`: a path (lines of JSON, csv, tsv, Parquet, a folder of text files, a data set that
    `datasets` has saved), or an iterable of dicts or texts. `what`: a type, a JSON Schema as a
    dict, a `grammars` constraint, a list of choices, or a program whose arguments are columns.
    `prompt`: a text with columns in braces, `{text}`; `examples`: rows that have an `output`, too.
    `chat`: as messages of a conversation. Greedy unless `temperature` is given; then the seed of a
    row is made of `seed` and the row's own arguments.

    `output`: a path (.jsonl, .csv, .parquet), in which each row gets `into`, `status` and `error`
    beside its columns, in the order of the input. Beside it is the journal, in which every row
    stands as soon as it has ended: the same call goes on where an earlier one was stopped or
    killed. Without an output the records are in the report. `force`: go on with a journal of
    another job. `retry_failed`: compute rows again that have failed.

    Raises UsageError for what cannot work, before any row is computed where that can be known.
    Ctrl-C ends it when the rows in flight have ended, a second one at once.
    """
    options = Options(
        prompt=prompt, examples=examples, chat=chat, max_tokens=max_tokens,
        temperature=temperature, seed=seed, into=into, force=force, retry_failed=retry_failed,
        choosing=Choosing(tuple(map(Condition.parse, where)), sample, limit),
        output=None if output is None else Path(output), row_timeout_s=row_timeout_s,
    )  # fmt: skip
    plan = Plan(dataset, what, options)
    return plan.run(backend_for(backend))


class Plan:
    """A job that can work, as far as that can be seen without its backend."""

    def __init__(self, dataset: Rows, what: Any, options: Options) -> None:
        self.options = options
        if options.output is not None:
            check_output(options.output)
        self.source = open_source(dataset)
        self._rows = options.choosing.of(iter(self.source.rows()))
        self.first = next(self._rows, None)
        columns = self.source.columns
        if columns is None and self.first is not None:
            columns = tuple(self.first.columns)
        self.asked = _asked(what, options, columns or ())
        self._check_columns()
        if self.options.output is not None:
            check_names(self.source.columns, options.into)

    def _check_columns(self) -> None:
        if self.first is None:
            return
        known = self.source.columns or tuple(self.first.columns)
        missing = [name for name in self.asked.columns if name not in known]
        if missing and not self.first.fault:
            raise UsageError(
                f"{self.source.name} has no column {missing[0]!r}, which is asked for; it has "
                f"{sorted(known)}"
            )

    def run(self, backend: Backend, watch: Watch | None = None) -> Report:
        if self.options.output is not None:
            return self._run(backend, journal_of(self.options.output), watch)
        with TemporaryDirectory(prefix="sgdsl-") as folder:
            return self._run(backend, Path(folder) / "journal", watch)

    def fingerprint(self, backend: Backend) -> dict[str, str]:
        """All that the outputs depend on, by name."""
        return {
            **self.asked.identity,
            "seed": str(self.options.seed),
            "model": model_of(backend),
        }

    def _run(self, backend: Backend, path: Path, watch: Watch | None) -> Report:
        options, began = self.options, monotonic()
        output = options.output
        if output is not None and output.exists() and not path.exists() and not options.force:
            raise UsageError(
                f"{output} exists, and there is no journal of the job that wrote it; give another "
                "output, delete it, or say force to replace it"
            )
        journal = Journal.open(path, self.fingerprint(backend), force=options.force)
        try:
            feed = Feed(
                self.rows(),
                journal,
                columns=self.asked.columns,
                arguments=self.asked.arguments,
                retries=options.retry_failed,
                keeps_columns=not self.source.rereadable,
            )
            job = Job(
                self.asked, feed, journal, backend,
                seed=options.seed, row_timeout_s=options.row_timeout_s,
            )  # fmt: skip
            shown = nullcontext() if watch is None else watch(job, feed, self.source)
            try:
                with shown, stopped_by_ctrl_c(job):
                    job.run()
            finally:
                journal.sync()
            records = self._write(journal)
            return Report(
                output=output,
                journal=None if output is None else path,
                counts=dict(journal.ledger.counts),
                num_same=journal.ledger.num_same,
                num_resumed=feed.num_resumed,
                prompt_tokens=job.progress.prompt_tokens,
                cached_tokens=job.progress.cached_tokens,
                completion_tokens=job.progress.completion_tokens,
                wall_s=monotonic() - began,
                is_complete=not feed.is_stopped,
                records=records,
            )
        finally:
            journal.close()

    def rows(self) -> Iterator[Row]:
        """Those that are chosen; once."""
        return self._rows if self.first is None else chain([self.first], self._rows)

    def _write(self, journal: Journal) -> list[dict[str, Any]] | None:
        options, asked = self.options, self.asked
        if options.output is None:
            return list(records_of(self.source, journal, into=options.into))
        properties = (asked.schema or {}).get("properties")
        fields = tuple(properties) if isinstance(properties, Mapping) else ()
        write_records(
            options.output,
            lambda: records_of(self.source, journal, into=options.into),
            fields=fields,
        )
        return None


def _asked(what: Any, options: Options, columns: Sequence[str]) -> Asked:
    if isinstance(what, Program):
        if options.prompt is not None or options.examples or options.chat:
            raise UsageError("a program writes its own prompt; leave prompt, examples and chat out")
        return asked_of_program(what)
    constraint = constraint_of(what)
    found = explain(constraint, None, num_samples=0)
    if not found.is_supported:
        fault = found.faults[0]
        raise UsageError(f"what is asked cannot be enforced: {fault}")
    template = options.prompt or default_template(columns, in_words(constraint))
    prompt = Prompt(template, [_example(each, options.into) for each in options.examples])
    return asked_of_text(
        prompt,
        constraint,
        chat=options.chat,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
    )


def constraint_of(what: Any) -> Constraint:
    """Of a type, a schema, choices, or a constraint itself. Raises UsageError for what is none."""
    try:
        if isinstance(what, Constraint):
            return what
        if isinstance(what, Mapping):
            return JsonSchema(what)
        if isinstance(what, list | tuple):
            return Choices(what)
        return TypeOf(what)
    except GrammarError as error:
        raise UsageError(f"what is asked cannot be enforced: {error}") from error


def in_words(constraint: Constraint) -> str:
    """What is to be written, for a prompt that nobody wrote."""
    match constraint:
        case Choices():
            return f"Say which of these fits the text best: {', '.join(constraint.texts)}."
        case Regex():
            return f"Find what matches the pattern {constraint.pattern} in the text."
        case JsonSchema() | TypeOf():
            return f"Write what the text says as JSON of this schema:\n{constraint.text}"
    return "Find what is asked for in the text."


def _example(given: Mapping[str, Any], into: str) -> Example:
    if into not in given:
        raise UsageError(f"the example {dict(given)!r:.80} has no {into!r}: what should come of it")
    output = given[into]
    columns = {name: value for name, value in given.items() if name != into}
    text = (
        output
        if isinstance(output, str)
        else json.dumps(jsonable(output), ensure_ascii=False, separators=(",", ":"))
    )
    return Example(columns, text)
