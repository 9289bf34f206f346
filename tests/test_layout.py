"""The layout's promises that import-linter cannot see: what an import really loads."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["grammars", "sgdsl"])
def test_importing_the_frontend_loads_neither_torch_nor_the_runtime(package: str) -> None:
    code = (
        f"import sys, {package}; print({{'torch', 'transformers', 'runtime'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
