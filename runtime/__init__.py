"""The runtime that executes sgdsl programs on a local model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.threads import share_the_cores

if TYPE_CHECKING:
    from runtime.local import Runtime

__all__ = ["Runtime"]

share_the_cores()


def __getattr__(name: str) -> Any:
    """Imports `Runtime` when it is asked for: it brings torch, which the rest does not need."""
    if name == "Runtime":
        from runtime.local import Runtime

        return Runtime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
