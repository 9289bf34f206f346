"""`sgdsl extract` on a small real model: what it prints, writes and exits with."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from runtime.cli import main

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["work", "licence"]}, "n": {"type": "integer", "maximum": 99}},
    "required": ["kind", "n"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "prompt.txt").write_text("Say what it is.\n\nText: {text}\nAnswer: ")
    rows = [{"text": f"the license of the work {number % 3}"} for number in range(6)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    example = {"text": "a work", "output": {"kind": "work", "n": 1}}
    (tmp_path / "few.jsonl").write_text(json.dumps(example) + "\n")
    return tmp_path


def extract(model: Path, *more: str) -> int:
    return main(
        ["extract", "docs.jsonl", "--schema", "schema.json", "--prompt", "prompt.txt",
         "--model", str(model), "--max-tokens", "40", *more]
    )  # fmt: skip


def test_a_job_writes_a_record_for_each_row_and_goes_on(
    folder: Path, tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extract(tiny_llama_path, "-o", "out.jsonl", "--examples", "few.jsonl", "--quiet") == 0
    told = capsys.readouterr().out
    assert "6 rows: 6 ok" in told
    assert "3 equal another one, 0 were done before" in told
    records = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [record["text"] for record in records] == [
        f"the license of the work {number % 3}" for number in range(6)
    ]
    for record in records:
        assert record["status"] == "ok"
        assert record["output"]["kind"] in {"work", "licence"}
        assert record["output"]["n"] <= 99
    assert records[:3] == records[3:]
    again = ["-o", "out.jsonl", "--examples", "few.jsonl", "--quiet", "--json"]
    assert extract(tiny_llama_path, *again) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["num_resumed"], figures["completion_tokens"]) == (6, 0)
    assert extract(tiny_llama_path, "-o", "out.jsonl", "--quiet") == 2
    assert "another prompt" in capsys.readouterr().err


def test_another_model_is_refused(
    folder: Path, tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_llama_path, folder / "same")
    assert extract(tiny_llama_path, "-o", "out.jsonl", "--quiet") == 0
    assert extract(folder / "same", "-o", "out.jsonl", "--quiet") == 0
    (folder / "same" / "generation_config.json").write_text("{}")
    assert extract(folder / "same", "-o", "out.jsonl", "--quiet") == 2
    assert "another model:" in capsys.readouterr().err
    assert extract(folder / "same", "-o", "out.jsonl", "--quiet", "--force") == 0


def test_a_dry_run_shows_what_is_asked_and_writes_nothing(
    folder: Path, tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extract(tiny_llama_path, "--dry-run") == 0
    told = capsys.readouterr().out
    assert "Say what it is.\n\nText: the license of the work 0\nAnswer: " in told
    assert re.search(r"constraint: supported, at least \d+ tokens, of at most 40 tokens", told)
    assert re.search(r"prompts of \d+ to \d+ tokens", told)
    assert sorted(path.name for path in folder.iterdir()) == [
        "docs.jsonl", "few.jsonl", "prompt.txt", "schema.json",
    ]  # fmt: skip


def test_too_many_failures_are_an_exit_code(
    folder: Path, tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "docs.jsonl").open("a") as file:
        file.write("no JSON\n")
    assert extract(tiny_llama_path, "-o", "out.csv", "--quiet") == 1
    assert "1 failed" in capsys.readouterr().out
    assert extract(tiny_llama_path, "-o", "out.csv", "--quiet", "--max-error-rate", "0.2") == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["none.jsonl", "--regex", "a", "-o", "x.jsonl"], "none.jsonl does not exist"),
        (["docs.jsonl", "--regex", "a"], "say where the records go"),
        (["docs.jsonl", "-o", "x.jsonl"], "say what is asked by one of"),
        (["docs.jsonl", "-o", "x.jsonl", "--regex", "a", "--choices", "b"], "2 were given"),
        (["docs.jsonl", "-o", "x.jsonl", "--regex", "("], "is malformed"),
        (["docs.jsonl", "-o", "x.jsonl", "--schema", "prompt.txt"], "JSON"),
        (["docs.jsonl", "-o", "x.jsonl", "--program", "nowhere:f"], "cannot be loaded"),
        (["docs.jsonl", "-o", "x.jsonl", "--regex", "a", "--where", "n"], "is no condition"),
        (["docs.jsonl", "-o", "x.jsonl", "--regex", "a", "--max-error-rate", "7"], "no share"),
        (["docs.jsonl", "-o", "x.jsonl", "--regex", "a", "--prompt", "no.txt"], "cannot be read"),
    ],
)
def test_what_cannot_work_is_one_line_before_the_model_is_loaded(
    folder: Path, capsys: pytest.CaptureFixture[str], given: list[str], why: str
) -> None:
    assert main(["extract", *given, "--model", "/nowhere"]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1
