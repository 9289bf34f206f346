"""What the KV of given tokens depends on: the model, and whatever computes it.

Owns the answer to "would this process compute the same?", for KV that another one has computed.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import torch

from runtime.model.base import Model
from runtime.models.digests import digests_of


def identity_of(
    folder: Path, model: Model, *, dtype: str, batch_invariant: bool, but: Path
) -> dict[str, str]:
    """By name. `but`: a file that may lie in the folder and is no part of the model."""
    shape = model.shape
    return {
        "model": digest_of(folder, but=but),
        "decoder": type(model).__name__,
        "dtype": dtype,
        "shape": f"{shape.num_layers} x {shape.num_kv_heads} x {shape.head_dim}",
        "sgdsl": version("sgdsl"),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "processor": _processor(),
        "batch_invariant": str(batch_invariant),
        # The same to the bit is promised for one number of them.
        "threads": str(torch.get_num_threads()) if batch_invariant else "any",
    }


def _processor() -> str:
    """Its instructions: torch chooses its kernels by them."""
    tell = getattr(torch.cpu, "get_capabilities", dict)  # older torch does not
    flags = sorted(name for name, given in tell().items() if given is True)
    return " ".join([torch.backends.cpu.get_cpu_capability(), *flags])


def digest_of(folder: Path, *, but: Path | None = None) -> str:
    """Of the names and the whole contents of all its files but hidden ones: a fine-tune may differ
    from its model in a few bytes anywhere, and sizes, headers or samples would not tell them apart.
    """
    digest = sha256()
    files = [path for path in sorted(folder.rglob("*")) if _belongs(path, folder, but)]
    for path, found in digests_of(folder, files).items():
        digest.update(f"{path.relative_to(folder).as_posix()!r} {found}\n".encode())
    return digest.hexdigest()


def _belongs(path: Path, folder: Path, but: Path | None) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    aside = but is not None and path.resolve() == but.resolve()
    return path.is_file() and not hidden and not aside
