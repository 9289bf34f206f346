"""What can go wrong on the way from a model's name to its folder, and on reading what is there.

Owns the exception types; each message is one sentence that says what to do.
"""

from __future__ import annotations

from sgdsl.errors import SgdslError, UsageError


class ModelError(SgdslError):
    """Base of the errors about finding, fetching, converting and reading a model."""


class ModelNotFoundError(ModelError, UsageError):
    """The caller named a model that does not exist, or a folder that does not hold one."""


class ModelUnavailableError(ModelError, RuntimeError):
    """The model exists but cannot be had now: no network, a full disk, a file that was changed."""


class BrokenModelError(ModelError, ValueError):
    """The folder's files cannot be read, do not fit together, or ask for what cannot be loaded."""
