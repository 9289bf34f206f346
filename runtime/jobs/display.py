"""What people see of a job while it runs, on stderr: a bar on a terminal, else a line now and then.

Owns that. It only reads the job's progress, from a thread of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from runtime.jobs.feed import Feed
from runtime.jobs.job import Job
from runtime.jobs.reading.source import Source

LINE_S = 10.0
LIVE_S = 0.25


@contextmanager
def shown(job: Job, feed: Feed, source: Source, *, out: TextIO | None = None) -> Iterator[None]:
    """As long as the block lasts."""
    stream = sys.stderr if out is None else out
    ended, total = threading.Event(), source.num_rows
    with ExitStack() as stack:
        if stream.isatty():
            live = Live(console=Console(file=stream), auto_refresh=False, transient=True)
            stack.enter_context(live)
            every_s = LIVE_S
        else:
            live, every_s = None, LINE_S

        def show() -> None:
            while not ended.wait(every_s):
                said = line(job, feed, total)
                if live is None:
                    print(said, file=stream, flush=True)
                else:
                    live.update(Text(said), refresh=True)

        watcher = threading.Thread(target=show, name="sgdsl-job-display", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def line(job: Job, feed: Feed, total: int | None) -> str:
    """All in one line."""
    progress = job.progress
    seconds = max(1e-9, monotonic() - progress.began)
    num_done = progress.num_done + feed.num_resumed
    hit_rate = progress.cached_tokens / max(1, progress.prompt_tokens)
    said = [
        f"{num_done:,} of {total:,} rows" if total is not None else f"{num_done:,} rows",
        f"{progress.num_done / seconds:.2f} rows/s",
        f"{progress.completion_tokens / seconds:,.0f} tokens/s",
        f"cache hits {hit_rate:.0%}",
        f"{progress.num_failed:,} failed",
    ]
    if progress.is_stopping:
        said.append("stopping: rows in flight are finished; Ctrl-C again drops them")
    elif total is not None and progress.num_done:
        said.append(f"{_duration((total - num_done) * seconds / progress.num_done)} to go")
    return ", ".join(said)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
