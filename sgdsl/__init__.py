"""The structured-generation language: programs, graphs, outcomes and backends."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sgdsl.absent import ServerArgs, VertexAI
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
from sgdsl.async_program import AsyncProgram
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
from sgdsl.decorator import function
from sgdsl.errors import (
    BackendError,
    CancelledError,
    CheckFailed,
    ContextLengthError,
    DeadlineError,
    OverloadedError,
    ProgramError,
    ProviderError,
    SgdslError,
    TraceError,
    UsageError,
)
from sgdsl.graph import Graph
from sgdsl.machine import Completion
from sgdsl.outcome import Outcome
from sgdsl.program import Program
from sgdsl.state import ProgramState
from sgdsl.threads import num_left_behind

if TYPE_CHECKING:
    from runtime import Runtime
    from runtime.fleet import Fleet
    from runtime.jobs.extract import extract
    from sgdsl.backends.anthropic import Anthropic
    from sgdsl.backends.lanes import Provider
    from sgdsl.backends.litellm import LiteLLM
    from sgdsl.backends.openai import OpenAI
    from sgdsl.backends.policy import RateLimit
    from sgdsl.backends.remote import RuntimeEndpoint
    from sgdsl.backends.router import Router

    Engine = Runtime

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "STALL",
    "Anthropic",
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
    "ContextLengthError",
    "DeadlineError",
    "Engine",
    "Fleet",
    "Graph",
    "LiteLLM",
    "MockBackend",
    "OpenAI",
    "Outcome",
    "OverloadedError",
    "Program",
    "ProgramError",
    "ProgramState",
    "Provider",
    "ProviderError",
    "RateLimit",
    "Router",
    "Runtime",
    "RuntimeEndpoint",
    "ServerArgs",
    "SgdslError",
    "TraceError",
    "UsageError",
    "VertexAI",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "extract",
    "flush_cache",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "get_chat_template",
    "get_default_backend",
    "get_server_info",
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


_LAZY = {
    "Anthropic": "sgdsl.backends.anthropic",
    "LiteLLM": "sgdsl.backends.litellm",
    "OpenAI": "sgdsl.backends.openai",
    "Engine": "runtime",
    "Runtime": "runtime",
    "RuntimeEndpoint": "sgdsl.backends.remote",
    "Provider": "sgdsl.backends.lanes",
    "RateLimit": "sgdsl.backends.policy",
    "Router": "sgdsl.backends.router",
    "Fleet": "runtime.fleet",
    "extract": "runtime.jobs.extract",
}

if not TYPE_CHECKING:  # or every name would exist for a type checker

    def __getattr__(name: str) -> Any:
        """What brings torch (`Runtime`, the in-process engine) or an HTTP client is imported when
        it is first used.
        """
        if name in _LAZY:
            module = importlib.import_module(_LAZY[name])
            return getattr(module, "Runtime" if name == "Engine" else name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def flush_cache(backend: Backend | None = None) -> Any:
    """Drop what the backend has cached of earlier prompts; nothing where it keeps no cache."""
    flush = getattr(backend_for(backend), "flush_cache", None)
    return None if flush is None else flush()


def get_server_info(backend: Backend | None = None) -> dict[str, Any]:
    """What the backend tells of itself: of a server or a runtime its sizes and totals, of any
    other its token counts.
    """
    chosen = backend_for(backend)
    tell = getattr(chosen, "server_info", None)
    if tell is None:
        return {"max_in_flight": chosen.max_in_flight, **asdict(chosen.stats())}
    told: dict[str, Any] = tell()
    return told
