"""What a call takes from where it is made: backend, sampling, seed, priority, cache salt.

Owns the process-wide default backend and, for the thread that runs a body, the call it belongs to.
Knows nothing of programs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from sgdsl.arguments import RUN_ARGUMENTS, cache_salt_from, priority_from, sampling_from
from sgdsl.backends.base import Backend
from sgdsl.errors import TraceError, UsageError
from sgdsl.graph import DEFAULT_SAMPLING, Sampling
from sgdsl.record import record
from sgdsl.seeds import MASK, derive_seed

_NO_BACKEND = (
    "no backend to run on: pass backend=..., or set one for all runs with set_default_backend(...)"
)
_OF_THE_RUN = ("seed", "priority", "cache_salt")
"""What is not inherited by gens."""
_default_backend: Backend | None = None


@record
class Caller:
    """The run whose body is being executed; nested calls inherit from it. A trace: no backend."""

    backend: Backend | None
    sampling: Sampling
    seed: int
    priority: int = 0
    cache_salt: str | None = None
    num_calls: itertools.count[int] = field(default_factory=itertools.count)


caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def set_default_backend(backend: Backend | None) -> None:
    """Run on `backend` whatever names no other; None takes the default away."""
    global _default_backend  # noqa: PLW0603 - the one global; a caller's backend goes before it
    if backend is not None and not _is_backend(backend):
        raise UsageError(
            f"set_default_backend({backend!r}): a backend has a method `submit`; "
            "pass a Runtime(...) or another backend of sgdsl"
        )
    _default_backend = backend


def get_default_backend() -> Backend | None:
    return _default_backend


def backend_for(given: Backend | None) -> Backend:
    """`given`, else the caller's, else the default. Raises `UsageError` when there is none."""
    if given is not None:
        if not _is_backend(given):
            raise UsageError(
                f"backend={given!r} is not allowed; it is a Runtime(...) or another backend, "
                "which has a method `submit`"
            )
        return given
    current = caller.get()
    if current is not None:
        if current.backend is None:
            raise TraceError(
                "a traced body ran another program, and a trace has no backend; call it with the "
                "state, as in f(s, ...), to make it part of the graph"
            )
        return current.backend
    if _default_backend is None:
        raise UsageError(_NO_BACKEND)
    return _default_backend


def _is_backend(given: object) -> bool:
    return hasattr(given, "submit") and not isinstance(given, type)


def sampling_for(where: str, given: Mapping[str, Any]) -> Sampling:
    """What `given` (public argument names, None values absent) asks for, over the caller's."""
    current = caller.get()
    defaults = DEFAULT_SAMPLING if current is None else current.sampling
    if not given:
        return defaults
    unknown = given.keys() - RUN_ARGUMENTS
    if unknown:
        raise UsageError(
            f"{where}: no arguments {sorted(unknown)}; there are {sorted(RUN_ARGUMENTS)}"
        )
    asked = {name: value for name, value in given.items() if name not in _OF_THE_RUN}
    return sampling_from(where, asked).over(defaults)


def seed_for(given: int | None, where: str = "seed_for") -> int:
    """`given`, else one derived from the caller's, else a random one."""
    if given is not None:
        sampling_from(where, {"seed": given})
        return given & MASK
    current = caller.get()
    if current is not None:
        return derive_seed(current.seed, (1 << 40) + next(current.num_calls))
    return random.getrandbits(63)


def priority_for(given: int | None, where: str) -> int:
    """`given`, else the caller's, else 0."""
    if given is not None:
        return priority_from(where, given)
    current = caller.get()
    return 0 if current is None else current.priority


def cache_salt_for(given: str | None, where: str) -> str | None:
    """`given`, else the caller's, else none."""
    if given is not None:
        return cache_salt_from(where, given)
    current = caller.get()
    return None if current is None else current.cache_salt
