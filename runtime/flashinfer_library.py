"""FlashInfer, found when it is first needed. The one module that imports it.

Owns what is said when it is not there. What of it is called, and how, is the business of
`runtime.attention.flashinfer`.
"""

from __future__ import annotations

from typing import Any

from sgdsl.errors import UsageError


def flashinfer() -> Any:
    """The module. Raises UsageError where it is not installed."""
    try:
        import flashinfer as library
    except ImportError as error:
        raise UsageError(
            "running on a GPU takes FlashInfer, which is not installed "
            f"({error}); install it with `pip install 'sgdsl[gpu]'`, or run on the CPU with "
            "device='cpu'"
        ) from error
    return library
