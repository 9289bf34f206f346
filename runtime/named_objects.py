"""Objects that a command line names: MODULE:NAME."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from sgdsl.errors import UsageError


def load_object(name: str, option: str) -> Any:
    """The object that `module:name` means; modules of the current folder are found, too. Raises
    UsageError, which names the option.
    """
    module, sign, path = name.partition(":")
    if not (module and sign and path):
        raise UsageError(f"{option} {name!r} is not of the form MODULE:NAME")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{option} {name!r} cannot be loaded: {error}") from None
    return found
