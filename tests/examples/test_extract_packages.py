"""The main job: what it reads, what it counts, and that it ends well on any model."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest

import sgdsl as sgl
from examples.extract_packages import (
    License,
    Package,
    Status,
    agreement,
    extract,
    main,
    read_documents,
    truth_of,
)
from sgdsl import MockBackend, Runtime, UsageError

RECORD = (
    '{"name":"Demo_Pkg","version":"1.2","license":"BSD","topics":["Libraries","Fish"],'
    '"status":"beta","min_python":"3.9"}'
)
CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "License :: OSI Approved :: BSD License",
    "Topic :: Software Development :: Libraries",
]


def header(**fields: str) -> Message:
    message = Message()
    for name, value in {"Name": "demo-pkg", "Version": "1.2", **fields}.items():
        message[name.replace("_", "-")] = value
    return message


def test_the_truth_is_the_header_s() -> None:
    truth = truth_of(header(Requires_Python=">=3.9"), CLASSIFIERS, "new in 1.2")
    assert truth == {
        "name": "demo-pkg",
        "version": "1.2",
        "license": License.BSD,
        "topics": {"libraries"},
        "status": Status.BETA,
        "min_python": "3.9",
    }
    assert truth_of(header(), [], "no number here")["version"] is None


@pytest.mark.parametrize(
    ("fields", "family"),
    [
        ({"License_Expression": "MIT"}, License.MIT),
        ({"License": "Apache 2.0 License"}, License.APACHE),
        ({"License": "Mozilla Public License"}, License.MPL),
        ({"License_Expression": "PSF-2.0"}, License.PSF),
        ({"License": "do what you like"}, License.OTHER),
        ({}, License.OTHER),
    ],
)
def test_licence_families(fields: dict[str, str], family: License) -> None:
    assert truth_of(header(**fields), [], "")["license"] is family


def test_agreement_counts_fields() -> None:
    truth = truth_of(header(Requires_Python=">=3.9"), CLASSIFIERS, "new in 1.2")
    record = Package.model_validate_json(RECORD)
    assert agreement(record, truth) == 6
    assert agreement(record.model_copy(update={"topics": ["Fish"], "version": None}), truth) == 4
    nothing = truth_of(header(), [], "")
    assert agreement(record.model_copy(update={"topics": []}), nothing) >= 1


def test_documents_do_not_give_the_header_away() -> None:
    documents = {document.truth["name"]: document for document in read_documents()}
    assert len(documents) > 20
    assert all(document.text.startswith("Summary: ") for document in documents.values())
    assert "Requires-Python" not in "".join(document.text for document in documents.values())
    assert len(read_documents(3)) == 3


def test_a_row_is_a_typed_record() -> None:
    state = extract.run(document="Summary: x\n", backend=MockBackend(default=RECORD))
    assert state["record"] == Package.model_validate_json(RECORD)


def test_the_job_finishes_on_a_model_that_knows_nothing(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--limit", "4", "--json", "--model", str(tiny_llama_path)]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["rows"], report["valid"]) == (4, 4)
    assert report["cache_hit_rate"] > 0.2
    assert report["speedup_serial"] > 0


def test_ctrl_c_shows_what_is_finished(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(
        _: object, rows: list[dict[str, str]], *, backend: sgl.Backend, **__: object
    ) -> None:
        backends = [backend, MockBackend(default="nonsense")]
        raise sgl.BatchInterrupted(
            [
                extract.run(document=row["document"], backend=each)
                for row, each in zip(rows, backends, strict=True)
            ]
        )

    monkeypatch.setattr(type(extract), "run_batch", interrupted)
    assert main(["--limit", "2", "--model", str(tiny_llama_path)]) == 1
    out = capsys.readouterr().out
    assert "row 1 failed" in out
    assert "valid  1" in out


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_a_limit_below_one_is_refused(limit: str) -> None:
    with pytest.raises(SystemExit):
        main(["--limit", limit])


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no/such/folder"):
        main(["--limit", "1", "--model", "no/such/folder/here"])


def test_the_serial_run_shares_nothing(tiny_llama_path: Path) -> None:
    with Runtime(str(tiny_llama_path), prefix_cache=False) as runtime:
        for document in read_documents(2):
            extract.run(document=document.text, backend=runtime).sync()
        assert runtime.stats().cached_tokens == 0
