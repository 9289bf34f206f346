"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from runtime import cli, models
from runtime.models import ModelUnavailableError


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"sgdsl {version('sgdsl')}\n"


def test_pull_prints_the_folder(tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pull", "--model", str(tiny_llama_path)]) == 0
    assert capsys.readouterr().out == f"{tiny_llama_path}\n"


def test_an_unknown_model_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["pull", "--model", "/no/such"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sgdsl: There is no model '/no/such': give ")
    assert err.count("\n") == 1


def test_force_on_a_folder_is_asked_wrongly(
    tiny_llama_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pull", "--force", "--model", str(tiny_llama_path)]) == 2
    assert "cannot be fetched again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ModelUnavailableError("No\nnetwork."), 1, "sgdsl: No network.\n"),
        (KeyboardInterrupt(), 130, "sgdsl: interrupted\n"),
    ],
)
def test_faults_have_their_exit_codes(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(models, "resolve_model", fail)
    assert cli.main(["pull"]) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("name", ["", "~no-such-user/x", "a" * 300])
def test_what_is_no_path_is_one_line(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert cli.main(["pull", "--model", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"sgdsl: There is no model {name!r}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("home", ["~no-such-user", "/proc/x", "/dev/null/x", "/" + "a" * 300])
def test_a_home_that_cannot_be_is_one_line(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SGDSL_HOME", home)
    assert cli.main(["pull"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"sgdsl: The model folder '{home}")
    assert "set SGDSL_HOME to " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["pull", "--what"]])
def test_bad_arguments_exit_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: sgdsl" in capsys.readouterr().err


def test_the_command_is_installed_and_starts_without_torch() -> None:
    command = Path(sys.executable).parent / "sgdsl"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sgdsl ")
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, runtime.cli; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "False\n"
