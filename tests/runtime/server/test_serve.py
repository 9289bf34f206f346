"""`sgdsl serve`: what is refused, and a real server that runs a program until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl
from runtime.cli import main
from runtime.config import RuntimeConfig
from runtime.server.serve import check, num_bytes
from sgdsl import ProgramState, gen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_an_address_for_everybody_needs_a_key(host: str) -> None:
    with pytest.raises(sgl.UsageError, match="can be reached from other machines"):
        check(host, 30_000, api_key=None, insecure=False)
    check(host, 30_000, api_key="k", insecure=False)
    check(host, 30_000, api_key=None, insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_the_loopback_needs_none(host: str) -> None:
    check(host, 0, api_key=None, insecure=False)


def test_a_port_is_a_port() -> None:
    with pytest.raises(sgl.UsageError, match="--port 65536 is not allowed"):
        check("127.0.0.1", 65_536, api_key=None, insecure=False)


FOR_EXPERIMENTS = {"page_size", "prefix_cache", "share_outputs", "decoder", "max_in_flight"}
"""Options of the runtime that who serves has no reason to change."""


def given(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """The options that `sgdsl serve` makes its runtime with."""
    found: dict[str, Any] = {}

    class Started(Exception):  # noqa: N818 - it is no error
        pass

    def make(_: str, **options: Any) -> None:
        found.update(options)
        raise Started

    monkeypatch.setattr("runtime.local.Runtime", make)
    with pytest.raises(Started):
        main(["serve", *arguments])
    return found


def test_without_arguments_the_runtime_is_what_it_is_in_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = given(monkeypatch)
    served = RuntimeConfig(**options)
    assert replace(served, max_waiting=None, max_waiting_tokens=None) == RuntimeConfig()
    assert options.keys() == {field.name for field in fields(RuntimeConfig)} - FOR_EXPERIMENTS


def test_arguments_are_the_runtimes_options(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--kv-bytes", "8GiB", "--host-kv-bytes", "4096", "--context-len", "2048"]
    steps = ["--max-running", "32", "--token-budget", "512", "--tensor-parallel", "2"]
    others = ["--batch-invariant", "--speculation", "off", "--kv-dtype", "fp8"]
    options = given(monkeypatch, *sizes, *steps, *others, "--chat-template", "chatml")
    assert options.items() >= {
        ("kv_bytes", 8 << 30),
        ("host_kv_bytes", 4096),
        ("context_len", 2048),
        ("max_running", 32),
        ("token_budget", 512),
        ("tensor_parallel", 2),
        ("batch_invariant", True),
        ("speculation", "off"),
        ("kv_dtype", "fp8"),
        ("chat_template", "chatml"),
    }


@pytest.mark.parametrize("size", ["", "8GB", "-1", "1.5GiB", "8 GiB", "\u0668GiB", "GiB"])
def test_a_size_is_a_number_of_bytes_or_of_a_unit(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", f"--kv-bytes={size}"])
    assert "is no size; it is a number of bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "expected"), [("7", 7), ("2KiB", 2048), ("3MiB", 3 << 20), ("1GiB", 1 << 30)]
)
def test_sizes_are_read(size: str, expected: int) -> None:
    assert num_bytes(size) == expected


def test_what_the_runtime_refuses_is_refused_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--max-running", "0"]) == 2
    assert "max_running=0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_served_model_gives_what_it_gives_in_process(tiny_llama_path: Path) -> None:
    @sgl.function
    def write(s: ProgramState) -> None:
        s += "Once" + gen("a", max_tokens=8, regex="[a-z]{3}") + " and"
        s += gen("b", max_tokens=8)
        s += (" end" if s["b"] else " none") + sgl.select("c", [" yes", " no"])

    command = [sys.executable, "-c", "import sys; from runtime.cli import main; sys.exit(main())"]
    server = subprocess.Popen(
        [*command, "serve", "--model", str(tiny_llama_path), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert server.stderr is not None
    try:
        url = next(
            line.split("running on ")[1].split()[0]
            for line in server.stderr
            if "running on" in line
        )
        with sgl.RuntimeEndpoint(url, silence_s=30) as remote:
            there = [write.run(backend=remote, seed=seed) for seed in (1, 2)]
            assert sgl.get_server_info(remote)["model_path"] == tiny_llama_path.name
    finally:
        server.send_signal(signal.SIGINT)
        server.stderr.close()
        began = time.monotonic()
        server.wait()
    assert time.monotonic() - began < 60
    with sgl.Runtime(tiny_llama_path) as local:
        here = [write.run(backend=local, seed=seed) for seed in (1, 2)]
    assert [state.text() for state in there] == [state.text() for state in here]
    for one, other in zip(there, here, strict=True):
        assert one.outcome is not None and other.outcome is not None
        assert one.outcome.status == other.outcome.status
        assert one.get_meta_info("c")["probabilities"] == pytest.approx(
            other.get_meta_info("c")["probabilities"], rel=1e-4
        )
