"""Faults: what a row's error is called, and whose it is.

Owns the codes. A row's own fault is its entry; the fault of the backend, if it goes on, is the end
of the job: else ten million rows would fail in a minute, and be lost.
"""

from __future__ import annotations

from grammars import GrammarError
from sgdsl.errors import (
    BackendError,
    CancelledError,
    CheckFailed,
    ContextLengthError,
    DeadlineError,
    ProgramError,
    ProviderError,
    UsageError,
)

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ContextLengthError, "too_long"),
    (DeadlineError, "deadline"),
    (CancelledError, "cancelled"),
    (CheckFailed, "check_failed"),
    (GrammarError, "constraint"),
    (UsageError, "usage"),
    (BackendError, "backend"),
)

_OWN_STATUSES = frozenset({400, 404, 405, 409, 413, 415, 422})
"""Of HTTP: the request's own fault."""


def code_of(error: BaseException) -> str:
    """One word for it; `program` is whatever a program's own code raised."""
    cause = cause_of(error)
    return next((code for kind, code in _CODES if isinstance(cause, kind)), "program")


def cause_of(error: BaseException) -> BaseException:
    """What a failed node failed of."""
    while type(error) is ProgramError and error.__cause__ is not None:
        error = error.__cause__
    return error


def is_of_backend(error: BaseException) -> bool:
    """Any row would have met it."""
    cause = cause_of(error)
    if isinstance(cause, ProviderError):
        return cause.status not in _OWN_STATUSES
    return isinstance(cause, BackendError)
