"""The runtime's own error types: what a request asks beyond what the engine can give.

Owns the exceptions that runs end with. Those about finding a model are in `runtime.models`.
"""

from __future__ import annotations

from sgdsl.errors import ProviderError, UsageError


class ContextLengthError(UsageError):
    """A prompt, or a prompt with the output it must have, does not fit into the context or the
    pool.
    """

    too_long = True
    """A router looks at it: another provider may have room."""


class OverloadedError(ProviderError):
    """More runs wait than the runtime was told to keep. The same one may be taken later, or by
    another provider.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=429, retryable=True)


class UnsupportedModelError(UsageError):
    """The model's architecture needs something that the engine does not have yet."""
