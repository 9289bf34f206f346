"""Twenty minutes of mixed work on the tiny model: memory stays what it was. By `make stress`."""

from __future__ import annotations

import gc
import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest

import sgdsl as sgl
from runtime import Runtime
from sgdsl import ProgramState

SOAK_S = float(os.environ.get("SGDSL_SOAK_S", "1200"))
WARM_UP_SHARE = 0.3
"""Allocators and caches fill first."""

MAX_BYTES_PER_REQUEST = 100.0
MAX_BYTES_PER_TOKEN = 2.0


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@sgl.function
def mixed(s: ProgramState, index: int) -> None:
    s += "the license of the work is shared by each contributor " * (1 + index % 3)
    s += f"{index} " + sgl.gen("text", 6 + index % 20, temperature=1.0, ignore_eos=True)
    s += sgl.gen("number", 8, regex=rf"[0-9]{{1,{1 + index % 4}}}")
    s += sgl.select("choice", ["work", "license", f"{index % 11}"])
    branches = s.fork(2)
    branches += sgl.gen("branch", 4)
    branches.join()
    if index % 5 == 0:
        s += s["choice"] + sgl.gen("record", 40, json_schema={"enum": [index % 50, None]})


@pytest.mark.stress
@pytest.mark.timeout(SOAK_S + 600)
def test_memory_is_flat_per_request_and_per_token(tiny_llama_path: Path) -> None:
    indices = itertools.count()
    begin_s = time.monotonic()
    points: list[tuple[int, int, int]] = []  # requests, tokens, bytes
    # Remembered outputs take up to 64 MB, which would take hours to fill.
    with Runtime(tiny_llama_path, kv_bytes=1 << 22, share_outputs=False) as runtime:
        while (spent_s := time.monotonic() - begin_s) < SOAK_S or len(points) < 20:
            rows = [{"index": next(indices)} for _ in range(64)]
            states = mixed.run_batch(rows, backend=runtime)
            assert {state.outcome.status for state in states if state.outcome} <= {
                "ok",
                "truncated",
            }
            del states, rows
            if spent_s > WARM_UP_SHARE * SOAK_S or SOAK_S == 0:
                counts = runtime.scheduler_counts
                points.append((next(indices), counts.computed_tokens, resident_bytes()))
    requests, tokens, memory = np.array(points, dtype=np.float64).T
    per_request, per_token = (np.polyfit(x, memory, 1)[0] for x in (requests, tokens))
    print(f"{per_request:.1f} bytes a request, {per_token:.3f} a token, of {requests[-1]:,.0f}")
    assert per_request < MAX_BYTES_PER_REQUEST
    assert per_token < MAX_BYTES_PER_TOKEN
