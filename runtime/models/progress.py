"""Progress bars for long downloads and conversions, on stderr.

Owns how progress looks; knows nothing of what is being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class ProgressReport:
    """Shows one bar per stage, or nothing when `visible` is false."""

    def __init__(self, *, visible: bool = True) -> None:
        self._console = Console(stderr=True, quiet=not visible)

    def note(self, text: str) -> None:
        """One line for the user, outside any bar."""
        self._console.print(text, highlight=False)

    @contextmanager
    def stage(self, title: str, *, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """A bar; the function it yields takes the number of bytes done so far, in total."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console) as bars:
            task = bars.add_task(title, total=total_bytes)
            yield lambda done: bars.update(task, completed=min(done, total_bytes))
