"""A job says of every row what became of it, once, whatever happens meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from grammars import Choices, Regex
from runtime.jobs.extract import extract
from runtime.jobs.job import BackendGoneError
from runtime.jobs.journal import journal_of
from runtime.jobs.report import Report
from sgdsl import MockBackend, ProgramState
from sgdsl.backends.script import Request
from sgdsl.errors import BackendError, UsageError

Record = dict[str, Any]


class Answer(BaseModel):
    of: int
    draw: int


def of_prompt(request: Request) -> str:
    """The number that the prompt ends with, and the seed's: both are the row's alone."""
    number = int(request.prompt.rpartition("#")[2].partition(" ")[0])
    return json.dumps({"of": number, "draw": number * 7})


PROMPT = "Say it.\n\n#{n} "


def mock(**options: Any) -> MockBackend:
    return MockBackend({"output": of_prompt}, **options)


def write_rows(path: Path, numbers: list[int]) -> Path:
    path.write_text("".join(json.dumps({"n": n, "id": i}) + "\n" for i, n in enumerate(numbers)))
    return path


def read_lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def computed(output: Path) -> Counter[int]:
    """How often each row was computed, by the journal."""
    lines = read_lines(journal_of(output))[1:]
    return Counter(line["row"] for line in lines if "same_as" not in line)


def run(rows: Path, output: Path, **options: Any) -> Report:
    given = {"backend": mock(), "prompt": PROMPT, "output": output, **options}
    return extract(rows, Answer, **given)


def expected(numbers: list[int]) -> list[Record]:
    return [
        {"n": n, "id": i, "output": {"of": n, "draw": n * 7}, "status": "ok", "error": None}
        for i, n in enumerate(numbers)
    ]


def test_every_row_has_its_record_in_the_order_of_the_input(tmp_path: Path) -> None:
    numbers = [n * 37 % 1000 for n in range(3000)]
    rows = write_rows(tmp_path / "in.jsonl", numbers)
    report = run(rows, tmp_path / "out.jsonl")
    assert read_lines(tmp_path / "out.jsonl") == expected(numbers)
    assert report.is_complete
    assert report.counts["ok"] == 3000
    assert report.num_same == 2000, "equal rows are computed once"
    assert set(computed(tmp_path / "out.jsonl").values()) == {1}
    again = run(rows, tmp_path / "out.jsonl")
    assert (again.num_resumed, again.completion_tokens) == (3000, 0)
    assert read_lines(tmp_path / "out.jsonl") == expected(numbers)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_have_a_column_for_each_field(tmp_path: Path, suffix: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = write_rows(tmp_path / "in.jsonl", [4, 5])
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("no JSON\n")
    output = tmp_path / f"out{suffix}"
    report = run(rows, output)
    assert report.counts["failed"] == 1
    if suffix == ".csv":
        assert output.read_text().splitlines() == [
            "n,id,output.of,output.draw,status,error",
            "4,0,4,28,ok,",
            "5,1,5,35,ok,",
            ",,,,failed,bad_row: line 3 is not JSON: Expecting value: line 1 column 1 (char 0)",
        ]
    else:
        table = parquet.read_table(output)
        assert table.column("output.draw").to_pylist() == [28, 35, None]
        assert str(table.schema.field("output.draw").type) == "int64"
        assert table.column("status").to_pylist() == ["ok", "ok", "failed"]


def test_an_iterator_is_read_once_and_its_columns_are_kept(tmp_path: Path) -> None:
    report = extract(({"n": n, "x": [n]} for n in (1, 2, 1)), Answer, prompt=PROMPT, backend=mock())
    assert report.records is not None
    assert [(r["x"], r["output"]["of"]) for r in report.records] == [([1], 1), ([2], 2), ([1], 1)]
    assert report.num_same == 1
    kept = extract(
        iter([{"n": 9, "x": 1}]), Answer, prompt=PROMPT, backend=mock(), output=tmp_path / "o.jsonl"
    )
    assert kept.counts["ok"] == 1
    assert read_lines(tmp_path / "o.jsonl")[0]["x"] == 1


def test_rows_that_cannot_be_asked_fail_alone(tmp_path: Path) -> None:
    rows = tmp_path / "in.jsonl"
    rows.write_text('{"n": 1}\n[]\n{"m": 1}\n{"n": "x"}\n{"n": 2}\n')
    report = run(rows, tmp_path / "out.jsonl")
    errors = [
        r["error"] and r["error"].partition(":")[0] for r in read_lines(tmp_path / "out.jsonl")
    ]
    assert errors == [None, "bad_row", "missing_column", "program", None]
    assert report.error_rate == 3 / 5


@sgl.function
def judge(s: ProgramState, n: int, scale: int = 1) -> None:
    s += f"#{n * scale} " + sgl.gen("output", type=Answer)
    s += " and " + sgl.gen("more", max_tokens=4)


def test_a_program_takes_columns_as_arguments(tmp_path: Path) -> None:
    backend = MockBackend({"output": of_prompt, "more": "yes"})
    report = extract([{"n": 3, "other": 1}, {"n": 3, "scale": 2}], judge, backend=backend)
    assert report.records is not None
    assert [r["output"] for r in report.records] == [
        {"output": {"of": 3, "draw": 21}, "more": "yes"},
        {"output": {"of": 6, "draw": 42}, "more": "yes"},
    ]
    with pytest.raises(UsageError, match="has no column 'n', which is asked for"):
        extract([{"scale": 1}], judge, backend=backend)
    with pytest.raises(UsageError, match="writes its own prompt"):
        extract([{"n": 1}], judge, prompt=PROMPT, backend=backend)


def test_a_pattern_choices_and_a_schema_can_be_asked_for() -> None:
    backend = MockBackend({"output": "17"}, scores={"output": {"a": -3.0, "b": -1.0}})
    for what, value in (
        (Regex("[0-9]+"), "17"),
        ({"type": "integer"}, 17),
        (Choices(["a", "b"]), "b"),
        (["a", "b"], "b"),
        (int, 17),
    ):
        report = extract(["some text"], what, backend=backend)
        assert report.records is not None
        assert report.records[0]["output"] == value


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"what": {"$ref": "https://example.com/schema"}}, "cannot be enforced"),
        ({"what": []}, "cannot be enforced"),
        ({"prompt": "no hole"}, "has no hole"),
        ({"prompt": "{m}"}, "has no column 'm', which is asked for"),
        ({"output": Path("x.doc")}, "outputs are .jsonl, .csv, .parquet"),
        ({"limit": 0}, "at least 1"),
        ({"sample": 2.0}, "at most 1"),
        ({"where": ["n"]}, "is no condition"),
        ({"examples": [{"n": 1}]}, "has no 'output'"),
    ],
)
def test_what_cannot_work_is_refused_before_any_row(given: Mapping[str, Any], why: str) -> None:
    def never(_: Request) -> str:
        raise AssertionError("no row is computed")

    options: dict[str, Any] = {"prompt": PROMPT, "what": Answer, **given}
    with pytest.raises(UsageError, match=why):
        extract([{"n": 1}], options.pop("what"), backend=MockBackend(never), **options)


def test_an_output_that_exists_is_not_written_over(tmp_path: Path) -> None:
    rows, output = write_rows(tmp_path / "in.jsonl", [1]), tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(UsageError, match="exists, and there is no journal"):
        run(rows, output)
    assert output.read_text() == "mine"
    run(rows, output, force=True)
    assert read_lines(output) == expected([1])


def test_another_job_and_another_input_are_refused(tmp_path: Path) -> None:
    rows, output = write_rows(tmp_path / "in.jsonl", [1, 2]), tmp_path / "out.jsonl"
    run(rows, output)
    for changed, name in (
        ({"prompt": "Other.\n\n#{n} "}, "prompt"),
        ({"max_tokens": 7}, "max_tokens"),
        ({"seed": 7}, "seed"),
        ({"temperature": 0.5}, "temperature"),
    ):
        with pytest.raises(UsageError, match=f"another {name}"):
            run(rows, output, **changed)
    write_rows(rows, [1, 3])
    with pytest.raises(UsageError, match="row 1 of the input is not what it was"):
        run(rows, output)
    write_rows(rows, [1, 2, 5])
    assert run(rows, output).counts["ok"] == 3, "rows may be added"


def test_failed_rows_are_computed_again_when_asked(tmp_path: Path) -> None:
    rows, output = write_rows(tmp_path / "in.jsonl", [1, 2, 2, 3]), tmp_path / "out.jsonl"

    def failing(request: Request) -> Any:
        return ValueError("not now") if "#2" in request.prompt else of_prompt(request)

    first = run(rows, output, backend=MockBackend(failing))
    assert first.counts == {"ok": 2, "failed": 2, "truncated": 0, "cancelled": 0, "skipped": 0}
    assert run(rows, output).counts["failed"] == 2, "not asked"
    second = run(rows, output, retry_failed=True)
    assert second.counts["ok"] == 4
    assert second.num_resumed == 2
    assert read_lines(output) == expected([1, 2, 2, 3])
    last = [line for line in read_lines(journal_of(output))[1:] if line["row"] == 1][-1]
    assert last["attempts"] == 2


def test_a_backend_that_is_gone_ends_the_job_and_costs_no_row(tmp_path: Path) -> None:
    numbers = list(range(100))
    rows, output = write_rows(tmp_path / "in.jsonl", numbers), tmp_path / "out.jsonl"

    def dying(request: Request) -> Any:
        gone = int(request.prompt.rpartition("#")[2]) >= 40
        return BackendError("it is gone") if gone else of_prompt(request)

    with pytest.raises(BackendGoneError, match="it is gone; they are not done"):
        run(rows, output, backend=MockBackend(dying))
    assert sum(computed(output).values()) == 40
    assert run(rows, output).num_resumed == 40
    assert read_lines(output) == expected(numbers)


def test_a_backend_that_fails_now_and_then_fails_rows(tmp_path: Path) -> None:
    numbers = list(range(60))
    rows, output = write_rows(tmp_path / "in.jsonl", numbers), tmp_path / "out.jsonl"
    bad = {n for n in numbers if n % 10 < 2} | {59}

    def failing(request: Request) -> Any:
        is_bad = int(request.prompt.rpartition("#")[2]) in bad
        return BackendError("not now") if is_bad else of_prompt(request)

    report = run(rows, output, backend=MockBackend(failing))
    assert report.counts["failed"] == len(bad)
    assert all(r["status"] == ("failed" if r["n"] in bad else "ok") for r in read_lines(output))


def test_what_is_chosen_is_the_same_in_every_run(tmp_path: Path) -> None:
    numbers = list(range(400))
    rows = write_rows(tmp_path / "in.jsonl", numbers)
    chosen = []
    for name in ("a.jsonl", "b.jsonl"):
        run(rows, tmp_path / name, where=["n>=100", "id!=150"], sample=0.25, limit=40)
        chosen.append([record["n"] for record in read_lines(tmp_path / name)])
    assert chosen[0] == chosen[1] == sorted(chosen[0])
    assert len(chosen[0]) == 40
    assert min(chosen[0]) >= 100
    assert 150 not in chosen[0]
    assert chosen[0] != numbers[100:140], "a sample is no beginning"


@sgl.function
def drawn(s: ProgramState, n: int) -> None:
    s += f"{n}" + sgl.gen("x", 8, temperature=1.0)


def test_a_row_is_what_it_is_in_any_batch_and_any_order() -> None:
    """The mock draws from the seed of the gen, as engines do."""

    def by_seed(request: Request) -> str:
        return str(request.seed)

    found: list[dict[int, Any]] = []
    for rows, in_flight in (
        (range(50), 1),
        (range(49, -1, -1), 64),
        (list(range(20, 50)) + list(range(20)), 7),
    ):
        backend = MockBackend(by_seed, max_in_flight=in_flight)
        report = extract([{"n": n} for n in rows], drawn, backend=backend, seed=5)
        assert report.records is not None
        found.append({r["n"]: r["output"] for r in report.records})
    assert found[0] == found[1] == found[2]
    assert len({str(value) for value in found[0].values()}) == 50
    other = extract([{"n": 0}], drawn, backend=MockBackend(by_seed), seed=6)
    assert other.records is not None
    assert other.records[0]["output"] != found[0][0]


def _job(rows: str, output: str) -> None:
    """In a process of its own, until somebody kills it."""

    def slow(_: Request) -> float:
        return random.uniform(0, 0.004)

    run(Path(rows), Path(output), backend=mock(latency_s=slow, max_in_flight=16))


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.slow
def test_fifty_kills_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    numbers = [n % 1500 for n in range(2000)]
    rows, output = write_rows(tmp_path / "in.jsonl", numbers), tmp_path / "out.jsonl"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["runtime.jobs.extract", __name__])
    num_kills, sizes = 0, list[int]()
    while num_kills < 50:
        process = context.Process(target=_job, args=(str(rows), str(output)))
        process.start()
        grown = (sizes or [0])[-1] + random.randrange(15_000)
        while process.is_alive() and size_of(journal_of(output)) <= grown:
            time.sleep(random.uniform(0, 0.005))
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            num_kills += 1
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        sizes.append(size_of(journal_of(output)))
        if process.exitcode == 0:
            assert read_lines(output) == expected(numbers)
            output.unlink()
            journal_of(output).unlink()
            sizes.append(0)
    assert run(rows, output).is_complete
    assert read_lines(output) == expected(numbers)
    lines = read_lines(journal_of(output))[1:]
    assert Counter(line["row"] for line in lines) == Counter(range(2000)), "none twice"
    assert len(set(sizes)) > 10, "it went on from kill to kill"


def test_ctrl_c_lets_rows_in_flight_end(tmp_path: Path) -> None:
    numbers = list(range(500))
    rows, output = write_rows(tmp_path / "in.jsonl", numbers), tmp_path / "out.jsonl"

    def interrupting(request: Request) -> str:
        if "#40 " in request.prompt:
            os.kill(os.getpid(), signal.SIGINT)
        return of_prompt(request)

    report = run(rows, output, backend=MockBackend(interrupting, latency_s=0.001, max_in_flight=4))
    assert not report.is_complete
    assert 0 < report.num_rows < 500
    assert report.counts["ok"] == report.num_rows
    done = read_lines(output)
    assert done == [each for each in expected(numbers) if each in done], "what is done is written"
    assert run(rows, output).num_resumed == report.num_rows
    assert read_lines(output) == expected(numbers)


def test_a_second_ctrl_c_drops_them(tmp_path: Path) -> None:
    rows, output = write_rows(tmp_path / "in.jsonl", list(range(50))), tmp_path / "out.jsonl"
    for delay in (0.2, 0.5):
        threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises((KeyboardInterrupt, sgl.BatchInterrupted)):
        run(rows, output, backend=mock(latency_s=30.0))
    assert time.monotonic() - began < 20
    assert run(rows, output).counts["ok"] == 50


def test_a_row_may_take_so_long(tmp_path: Path) -> None:
    def slow(request: Request) -> float:
        return 60.0 if "#1 " in request.prompt else 0.0

    rows, output = write_rows(tmp_path / "in.jsonl", [0, 1, 2]), tmp_path / "out.jsonl"
    report = run(rows, output, backend=mock(latency_s=slow), row_timeout_s=0.5)
    assert report.counts["cancelled"] == 1
    assert read_lines(output)[1]["error"].startswith("deadline: ")


def peak_mib(measured: Callable[[], object]) -> float:
    import tracemalloc

    tracemalloc.start()
    try:
        measured()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_rows_but_for_the_ledger(tmp_path: Path) -> None:
    """What is in flight takes some MiB, more or less."""
    peaks = []
    for num in (2_000, 5_000, 30_000):  # the first one makes what a process makes once
        rows = write_rows(tmp_path / f"{num}.jsonl", list(range(num)))
        output = tmp_path / f"{num}.out.jsonl"
        peaks.append(peak_mib(lambda rows=rows, output=output: run(rows, output)))  # type: ignore[misc]
    assert peaks[2] - peaks[1] < 25_000 * 40 / 2**20 + 2
