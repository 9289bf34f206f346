"""The structured-generation language: programs, graphs, outcomes and backends."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sgdsl.api import (
    REGEX_BOOL,
    REGEX_FLOAT,
    REGEX_INT,
    REGEX_STR,
    assistant,
    assistant_begin,
    assistant_end,
    gen,
    gen_int,
    gen_string,
    image,
    select,
    separate_reasoning,
    system,
    system_begin,
    system_end,
    user,
    user_begin,
    user_end,
    video,
)
from sgdsl.async_state import AsyncProgramState
from sgdsl.backends.base import Backend, BackendStats
from sgdsl.backends.mock import MockBackend
from sgdsl.backends.script import STALL
from sgdsl.batch_errors import BatchFailed, BatchInterrupted
from sgdsl.chat import ChatTemplate
from sgdsl.chat_families import get_chat_template, register_chat_template
from sgdsl.choices import (
    greedy_token_selection,
    token_length_normalized,
    unconditional_likelihood_normalized,
)
from sgdsl.context import backend_for, get_default_backend, set_default_backend
from sgdsl.errors import (
    BackendError,
    CancelledError,
    CheckFailed,
    DeadlineError,
    ProgramError,
    SgdslError,
    TraceError,
    UsageError,
)
from sgdsl.graph import Graph
from sgdsl.machine import Completion
from sgdsl.outcome import Outcome
from sgdsl.program import AsyncProgram, Program, function
from sgdsl.state import ProgramState
from sgdsl.threads import num_left_behind

if TYPE_CHECKING:
    from runtime import Runtime

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "STALL",
    "AsyncProgram",
    "AsyncProgramState",
    "Backend",
    "BackendError",
    "BackendStats",
    "BatchFailed",
    "BatchInterrupted",
    "CancelledError",
    "ChatTemplate",
    "CheckFailed",
    "Completion",
    "DeadlineError",
    "Graph",
    "MockBackend",
    "Outcome",
    "Program",
    "ProgramError",
    "ProgramState",
    "Runtime",
    "SgdslError",
    "TraceError",
    "UsageError",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "flush_cache",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "get_chat_template",
    "get_default_backend",
    "greedy_token_selection",
    "image",
    "num_left_behind",
    "register_chat_template",
    "select",
    "separate_reasoning",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
    "user",
    "user_begin",
    "user_end",
    "video",
]


if not TYPE_CHECKING:  # or every name would exist for a type checker

    def __getattr__(name: str) -> Any:
        """`Runtime`, the in-process engine, brings torch: it is imported when it is first used."""
        if name == "Runtime":
            return importlib.import_module("runtime").Runtime
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def flush_cache(backend: Backend | None = None) -> Any:
    """Drop what the backend has cached of earlier prompts. Raises `UsageError` if it cannot."""
    chosen = backend_for(backend)
    flush = getattr(chosen, "flush_cache", None)
    if flush is None:
        raise UsageError(f"flush_cache: {chosen!r} keeps no cache; leave the call out")
    return flush()
