"""How a batch shows how far it is.

Owns the progress bar: rows, tokens per second, cache hit rate, failures. Only reads what the
backend counts; off, it costs nothing.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console

from sgdsl.backends.base import Backend, BackendStats

PLAIN_EVERY_S = 10.0
"""How often a line is printed where there is no terminal to draw a bar on."""


class Progress:
    """Draws on stderr while it is entered. `total` is None when nobody knows."""

    def __init__(self, backend: Backend, *, total: int | None, visible: bool) -> None:
        self._backend = backend
        self._total = total
        self._visible = visible
        self._bar: bars.Progress | None = None
        self._task = bars.TaskID(0)
        self._begin_s = self._shown_s = 0.0
        self._before = BackendStats()
        self._rows = (0, 0)

    def __enter__(self) -> Self:
        if not self._visible:
            return self
        self._before = self._backend.stats()
        self._begin_s = self._shown_s = time.monotonic()
        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = bars.Progress(
                bars.BarColumn(),
                bars.MofNCompleteColumn(),
                bars.TextColumn("rows"),
                bars.TimeElapsedColumn(),
                bars.TextColumn("{task.description}"),
                console=console,
            )
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._visible:
            return
        self._draw()
        if self._bar is not None:
            self._bar.stop()

    def show(self, num_finished: int, num_failed: int) -> None:
        """Called some ten times a second by whoever waits for the rows."""
        if not self._visible:
            return
        self._rows = (num_finished, num_failed)
        due_s = 0.1 if self._bar is not None else PLAIN_EVERY_S
        if time.monotonic() - self._shown_s >= due_s:
            self._draw()

    def _draw(self) -> None:
        self._shown_s = time.monotonic()
        num_finished, num_failed = self._rows
        line = describe(
            self._before, self._backend.stats(), elapsed_s=self._shown_s - self._begin_s
        )
        if num_failed:
            line += f", {num_failed} failed"
        if self._bar is not None:
            self._bar.update(self._task, completed=num_finished, description=line)
        else:
            total = "" if self._total is None else f"/{self._total}"
            sys.stderr.write(f"{num_finished}{total} rows, {line}\n")


def describe(before: BackendStats, now: BackendStats, *, elapsed_s: float) -> str:
    """Tokens per second and cache hit rate (cached of prompt tokens) between two counts."""
    completion_tokens = now.completion_tokens - before.completion_tokens
    prompt_tokens = now.prompt_tokens - before.prompt_tokens
    cached_tokens = now.cached_tokens - before.cached_tokens
    tokens_per_s = completion_tokens / elapsed_s if elapsed_s > 0 else 0.0
    hit_rate = cached_tokens / prompt_tokens if prompt_tokens else 0.0
    return f"{tokens_per_s:,.0f} tokens/s, {hit_rate:.0%} cached"
