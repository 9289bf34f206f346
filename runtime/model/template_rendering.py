"""Conversations through a tokenizer's Jinja template, in a process that can be killed.

Owns that process: what it is asked, how long and how large it may become, and what it means that
there is no answer. What the texts say about the template is somebody else's business.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

MAX_SECONDS = 4
"""Of processor time, for all conversations together; the largest known templates take 0.2."""
MAX_BYTES = 1 << 29
"""Of address space, the interpreter's 0.2 GiB included."""
MAX_CHARACTERS = 1 << 20
"""Of one rendered conversation."""
PATIENCE_S = 60.0
"""By the wall, on a machine that is busy with other things."""

Conversation = tuple[tuple[str, str], ...]
"""(role, content) of each message."""


class TemplateFaultError(Exception):
    """The template cannot be rendered at all. Its text is one sentence without a period."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a conversation, or why there is none."""

    text: str = ""
    error: str | None = None


@lru_cache(maxsize=64)
def render(
    source: str,
    variables: tuple[tuple[str, str], ...],
    conversations: tuple[tuple[Conversation, bool], ...],
    *,
    max_seconds: int | None = None,
    patience_s: float = PATIENCE_S,
) -> tuple[Rendered, ...]:
    """Each conversation through the template `source`; the bool asks for the generation prompt.
    `max_seconds`: of processor time, MAX_SECONDS by default.

    Raises `TemplateFaultError` when that takes too much time or memory, or the template is not one.
    """
    max_seconds = MAX_SECONDS if max_seconds is None else max_seconds
    request = {
        "source": source,
        "variables": dict(variables),
        "conversations": [(_messages(each), generate) for each, generate in conversations],
        "max_seconds": max_seconds,
        "max_bytes": MAX_BYTES,
        "max_characters": MAX_CHARACTERS,
    }
    answer = _ask(request, max_seconds=max_seconds, patience_s=patience_s)
    if (fault := answer.get("fault")) == "memory":
        raise TemplateFaultError(f"it takes more than {MAX_BYTES >> 20} MiB, and was stopped")
    if fault == "length":
        raise TemplateFaultError(f"it makes more than {MAX_CHARACTERS:,} characters of a few words")
    if fault is not None:
        raise TemplateFaultError(f"it is no template that can be used: {fault}")
    return tuple(
        Rendered(text=text) if good else Rendered(error=text) for good, text in answer["answers"]
    )


def _messages(conversation: Conversation) -> list[Mapping[str, str]]:
    return [{"role": role, "content": content} for role, content in conversation]


def _ask(request: Mapping[str, object], *, max_seconds: int, patience_s: float) -> dict[str, Any]:
    script = Path(__file__).with_name("template_renderer.py")
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(script)],
            input=json.dumps(request),
            capture_output=True,
            encoding="utf-8",
            timeout=patience_s,
            check=False,
            start_new_session=True,  # a Ctrl-C is its parent's
        )
    except subprocess.TimeoutExpired:  # it has been killed
        raise TemplateFaultError(
            f"it ran for more than {patience_s:g} s, and was stopped"
        ) from None
    except OSError as error:
        raise TemplateFaultError(
            f"the process that renders it cannot be started: {error}"
        ) from None
    if done.returncode in {-signal.SIGXCPU, -signal.SIGKILL}:
        raise TemplateFaultError(
            f"it ran for more than {max_seconds} s of processor time, and was stopped"
        )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TemplateFaultError(
            f"the process that renders it ended with {done.returncode}: {last[:200]}"
        ) from None
    return answer
