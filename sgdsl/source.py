"""Where in the user's files something was written.

Owns the walk from a call into sgdsl back to the user's line. Knows nothing of what was written.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, TracebackType

_PACKAGE = str(Path(__file__).parent) + os.sep


@dataclass(frozen=True, slots=True)
class Source:
    """The user's line that wrote a node."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@lru_cache(maxsize=4096)
def _source(file: str, line: int) -> Source:
    return Source(file, line)  # one object a line, however many rows pass it


def user_source() -> Source:
    """The innermost line of the calling thread that is not ours."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect` walks whole stacks, which costs 100x
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return _source(frame.f_code.co_filename, frame.f_lineno)


def head_source(body: CodeType) -> Source:
    """Where a body begins."""
    return _source(body.co_filename, body.co_firstlineno)


def body_source(traceback: TracebackType | None, body: CodeType) -> Source | None:
    """The line that an error passed in `body`'s file (the innermost one), or outside of ours."""
    own: Source | None = None
    foreign: Source | None = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file == body.co_filename:
            own = _source(file, traceback.tb_lineno)
        elif not file.startswith(_PACKAGE):
            foreign = _source(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return own or foreign
