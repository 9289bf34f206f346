"""Where models come from: names and paths in, a local folder in Hugging Face format out.

Owns the default model's download, conversion and cache folder. Must not know the engine, or how a
model is loaded and run.
"""

from __future__ import annotations

from runtime.models.errors import (
    BrokenModelError,
    ModelError,
    ModelNotFoundError,
    ModelUnavailableError,
)
from runtime.models.resolve import default_model_if_present, resolve_model
from runtime.models.store import sgdsl_home

__all__ = [
    "BrokenModelError",
    "ModelError",
    "ModelNotFoundError",
    "ModelUnavailableError",
    "default_model_if_present",
    "resolve_model",
    "sgdsl_home",
]
