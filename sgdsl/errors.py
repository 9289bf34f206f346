"""The error families of the frontend: whose fault it is, and where in the user's program.

Owns the exception types. Knows nothing of graphs, backends or engines.
"""

from __future__ import annotations

from collections.abc import Sequence


class SgdslError(Exception):
    """Base of every error that sgdsl raises on purpose."""


class UsageError(SgdslError, ValueError):
    """The caller's fault: says what was given, what is allowed and what to do."""


def no_variable(
    name: str | int, names: Sequence[str], num_unnamed: int, at: str = ""
) -> UsageError:
    """Of a read of what a branch does not have: `names`, and so many gens without a name."""
    has = f"only {list(names)!r}" if names else "none"
    start = f"variable {name!r} was read{at}, but this branch"
    if isinstance(name, int):
        return UsageError(
            f"{start} has {num_unnamed} unnamed gens, which are read by position from 0 on, and "
            f"{has} with a name"
        )
    if not names:
        return UsageError(
            f"{start} defines none; append what defines it first, as in s += gen({name!r}), and "
            "join forks whose variables are to be read here"
        )
    return UsageError(f"{start} defines {has}; read one of these, or generate it first")


class TraceError(UsageError):
    """A traced body needed a concrete value; a trace has only names."""


class BackendError(SgdslError, RuntimeError):
    """The backend's fault: it died, was closed, or answered nonsense."""


class ProviderError(BackendError):
    """A provider could not be reached, refused, or answered nonsense.

    `status`: of HTTP, None without an answer. `retryable`: the same request may succeed later;
    `retry_after_s`: when, if the provider says so.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class OverloadedError(ProviderError):
    """More runs wait than a runtime was told to keep. The same one may be taken later, or by
    another provider.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=429, retryable=True)


class ContextLengthError(UsageError):
    """A prompt, or a prompt with the output it must have, does not fit into the context or the pool
    of a runtime.
    """

    too_long = True
    """A router looks at it: another provider may have room."""


class CancelledError(SgdslError):
    """The run was cancelled before it could finish."""


class DeadlineError(CancelledError):
    """A run took longer than it was given: `timeout_s`, or `row_timeout_s` of a batch."""


class ProgramError(SgdslError, RuntimeError):
    """A node of a program failed.

    `__cause__` is the original error; `node` the printed node, `source` the user's line
    as `file:line`; both are None when the failure belongs to no single node. `partial`: what the
    node had written by then, as far as its backend has told.
    """

    def __init__(self, message: str, *, node: str | None = None, source: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.source = source
        self.partial = ""


class CheckFailed(ProgramError):  # noqa: N818 - as `BatchFailed`
    """A `check` did not pass however often its gen was written again. `value`: the last one; None
    where it could not even be read.
    """

    def __init__(self, message: str, *, node: str, source: str, value: object) -> None:
        super().__init__(message, node=node, source=source)
        self.value = value


def told(error: BaseException) -> str:
    """The type and the text of an error that may be anybody's: making its text may fail, too."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception as failed:  # noqa: BLE001 - whatever it is, the run has to end
        return f"{kind}, whose text cannot be made: {type(failed).__name__}"
