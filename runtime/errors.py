"""The runtime's own error types: what a request asks beyond what the engine can give.

Owns the one about models that cannot be run. Those that runs end with are the frontend's, so that
they are the same on both sides of a wire; those about finding a model are in `runtime.models`.
"""

from __future__ import annotations

from sgdsl.errors import ContextLengthError, OverloadedError, UsageError

__all__ = ["ContextLengthError", "OverloadedError", "UnsupportedModelError"]


class UnsupportedModelError(UsageError):
    """The model's architecture needs something that the engine does not have yet."""
