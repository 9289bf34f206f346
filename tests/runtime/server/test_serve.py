"""`sgdsl serve`: what is refused, and a real server that runs a program until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sgdsl as sgl
from runtime.server.serve import check
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
