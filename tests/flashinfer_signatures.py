"""FlashInfer's signatures, as the package has them: a snapshot that is there without the package.

`python -m tests.flashinfer_signatures` writes the snapshot anew, where flashinfer-python is
installed (`make contracts` has it, and compares the two).

The decode wrapper's `plan` takes `**kwargs` and hands them on: what it is said to take here is what
its implementation takes.
"""

from __future__ import annotations

import functools
import inspect
import json
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

SNAPSHOT = Path(__file__).with_name("flashinfer_signatures.json")

WRAPPERS = (
    "BatchDecodeWithPagedKVCacheWrapper",
    "BatchPrefillWithPagedKVCacheWrapper",
    "MultiLevelCascadeAttentionWrapper",
)
METHODS = ("__init__", "plan", "run")


def of_package(library: Any) -> dict[str, Any]:
    """What the installed package has, as the snapshot keeps it."""
    found: dict[str, Any] = {"version": library.__version__}
    for wrapper in WRAPPERS:
        for method in METHODS:
            function = getattr(getattr(library, wrapper), method)
            signature = inspect.signature(function)
            if _takes_anything(signature):
                signature = inspect.signature(getattr(library, wrapper)._plan_impl)
            found[f"{wrapper}.{method}"] = _parameters(signature)
    return found


def _takes_anything(signature: Signature) -> bool:
    return any(each.kind is Parameter.VAR_KEYWORD for each in signature.parameters.values())


def _parameters(signature: Signature) -> list[list[Any]]:
    """Of each parameter its name, its kind, and whether it may be left out."""
    return [
        [each.name, each.kind.name, each.default is not Parameter.empty]
        for each in signature.parameters.values()
    ]


@functools.cache
def snapshot() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return found


@functools.cache
def signature_of(name: str) -> Signature:
    """A wrapper's method ("Wrapper.plan"), with `self`."""
    return Signature(
        [
            Parameter(each, getattr(Parameter, kind), default=default)
            for each, kind, may_be_left_out in snapshot()[name]
            for default in [None if may_be_left_out else Parameter.empty]
        ]
    )


def main() -> None:
    import flashinfer

    lines = [
        f"  {json.dumps(name)}: {json.dumps(value)}"
        for name, value in of_package(flashinfer).items()
    ]
    SNAPSHOT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{SNAPSHOT} has the signatures of flashinfer-python {flashinfer.__version__}")


if __name__ == "__main__":
    main()
