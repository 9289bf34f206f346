"""`sgdsl check-schema`: what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime import cli

Schema = dict[str, Any]


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    return write(
        tmp_path / "person.json",
        {
            "title": "Person",
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxlength": 3},
                "born": {"type": "string", "format": "datetime"},
            },
            "required": ["name"],
        },
    )


def write(path: Path, schema: Schema) -> Path:
    path.write_text(json.dumps(schema), encoding="utf-8")
    return path


def check(*arguments: str | Path, code: int = 0) -> None:
    assert cli.main(["check-schema", "--no-model", *map(str, arguments)]) == code


def told(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> Any:
    check(*arguments, "--json", code=code)
    return json.loads(capsys.readouterr().out)


def test_a_schema_is_explained(schema_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(schema_file, "--samples", "2")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{schema_file}: supported"
    assert lines[1:4] == [
        "  shortest text    11 bytes",
        "  longest text     not bounded",
        "  number of texts  infinite",
    ]
    assert lines[6:-1] == [
        "  says nothing, so nothing of it is enforced",
        "    /properties/name/maxlength: an unknown keyword; did you mean 'maxLength'?",
        "    /properties/born/format: format 'datetime'; did you mean 'date-time'?",
        "    title (1)",
        "  samples",
        '    {"name":""}',
    ]


def test_a_refused_schema_has_exit_code_1_and_all_of_its_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"properties": {"a": {"nullable": True}, "b": {"minLength": -1}}}
    check(write(tmp_path / "bad.json", schema), code=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("bad.json: refused")
    assert lines[1].startswith("  unsupported: the schema has 'nullable' at /properties/a/nullable")
    assert lines[2].startswith("  malformed: the schema has ")
    assert " at /properties/b/minLength; it must be a count" in lines[2]
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type": "integer", "minimum": 3, "maximum": 2}', "unsatisfiable"),
        ("[]", "malformed"),
        ("{", "malformed"),
    ],
)
def test_stdin_is_read(
    text: str, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = told(capsys, "-", code=1)
    assert found["is_supported"] is False
    assert [fault["kind"] for fault in found["faults"]] == [kind]


def test_the_options_of_a_schema_are_passed_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other.json", {"const": "é"})
    schema = {
        "properties": {"a": {"$ref": "urn:o"}, "b": {"const": 1}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "type": "object",
        "format": "regex",
    }
    file = write(tmp_path / "schema.json", schema)
    found = told(
        capsys,
        *(file, "--resource", f"urn:o={other}", "--whitespace", "single"),
        *("--property-order", "any", "--formats", "ignore", "--ascii-only", "--samples", "9"),
    )
    assert '{"b": 1, "a": "\\u00e9"}' in found["samples"]
    assert [note["name"] for note in found["annotations"]] == ["regex"]


def test_a_pattern_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--regex", "[ab]{0,2}")
    assert (found["num_texts"], found["min_bytes"], found["max_bytes"]) == (7, 0, 2)
    assert told(capsys, "--regex", "a(b", code=1)["faults"][0]["position"] == 1


def test_a_type_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--type", "fractions:Fraction", code=1)["faults"]
    assert told(capsys, "--type", "builtins:bool")["samples"] == ["true", "false"]
    options = ["--whitespace", "flexible", "--max-whitespace", "2"]
    assert told(capsys, "--type", "builtins:bool", *options)["max_bytes"] == 7


def test_a_grammar_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nested.lark"
    file.write_text('start: "(" start? ")"\n', encoding="utf-8")
    found = told(capsys, "--grammar", file)
    assert found["is_finite"] is False
    assert found["samples"][0] == "()"


@pytest.mark.parametrize(("option", "begins"), [("--dot", "digraph"), ("--mermaid", "flowchart")])
def test_a_drawing_stands_alone(
    option: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check("--regex", "(ab|cd)+", option)
    out = capsys.readouterr().out
    assert out.startswith(begins)
    assert "ab | cd" in out.replace("#124;", "|")


def test_what_is_too_large_to_draw_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check("--regex", "a{100}b?c?", "--dot", "--max-states", "2", code=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sgdsl: the drawing would have")
    check("--regex", "a(b", "--dot", code=1)
    assert "malformed at column 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give one of FILE"),
        (["x.json", "--regex", "a"], "give one of FILE"),
        (["/no/such.json"], "'/no/such.json' cannot be read: No such file"),
        (["--regex", "a", "--formats", "ignore"], "--formats goes with a FILE only"),
        (["--type", "builtins:int", "--resource", "a=b"], "--resource goes with a FILE only"),
        (["--regex", "a", "--whitespace", "single"], "--whitespace goes with a FILE or --type"),
        (["--type", "builtins"], "not of the form MODULE:NAME"),
        (["--type", "no_such_module:X"], "cannot be loaded: No module named"),
        (["--type", "builtins:X"], "cannot be loaded: module 'builtins' has no attribute"),
        (["-", "--resource", "a"], "not of the form URI=FILE"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_exit_code_2(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    check(*arguments, code=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["x", "--samples", "-1"], ["x", "--whitespace", "none"], ["x", "--dot", "--json"]]
)
def test_bad_options_are_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["check-schema", *arguments])
    assert caught.value.code == 2


def test_tokens_are_counted_with_a_model(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--type", "builtins:bool", "--model", str(tiny_llama_path)]
    assert cli.main(["check-schema", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 1 <= found["min_tokens"] <= found["min_bytes"] == 4
    assert cli.main(["check-schema", *arguments]) == 0
    assert f"{found['min_tokens']} tokens, 4 bytes" in capsys.readouterr().out


def test_without_the_default_model_bytes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SGDSL_HOME", str(tmp_path))
    assert cli.main(["check-schema", "--type", "builtins:bool", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["min_tokens"] is None


def test_samples_are_shown_in_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    check("--regex", r"a\nb", "--samples", "1")
    assert capsys.readouterr().out.endswith("    a\\nb\n")
    check("--regex", "a{500}", "--samples", "1")
    assert capsys.readouterr().out.endswith(f"    {'a' * 199}…\n")
