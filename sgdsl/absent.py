"""Names of SGLang's that have nothing behind them here: what to take instead.

Owns these answers, for programs that come from there.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sgdsl.errors import UsageError


def VertexAI(model_name: str = "...", *_: Any, **__: Any) -> NoReturn:  # noqa: N802 - a class there
    """Raises `UsageError`: Google's models are behind LiteLLM, or behind formats of OpenAI."""
    raise UsageError(
        f"there is no backend VertexAI; take LiteLLM({f'vertex_ai/{model_name}'!r}), with the "
        f"package litellm, or OpenAI({f'google/{model_name}'!r}, base_url=...) with the URL of "
        "Vertex's OpenAI-compatible endpoint"
    )


def ServerArgs(*_: Any, **__: Any) -> NoReturn:  # noqa: N802 - a class there
    """Raises `UsageError`: these are arguments of `Runtime`, and options of `sgdsl serve`."""
    raise UsageError(
        "there are no ServerArgs; give them to Runtime(...), or to `sgdsl serve` on the command "
        "line"
    )
