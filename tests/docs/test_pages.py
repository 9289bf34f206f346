"""What the README and docs/ show is run: Python snippets, commands, links.

* The Python blocks of a section run in order, in one module that has `sgl`; where no backend is
  named they meet a `MockBackend()`. A `text` block right behind one is what it prints (`...` stands
  for anything). A snippet's lines are those of `program.py`.
* `"path/to/model"` is a tiny random model, `path/to/out` a place to write to. A section with a
  block marked `python model` needs the default model.
* A command of `.venv/bin/sgdsl` is run, and what stands below it is what it prints. Other commands
  are other tests' work, or take long: what they call must exist and must know the options that are
  shown.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sgdsl as sgl
from tests.docs.markdown import PAGES, ROOT, Section, anchors_of, links_of, sections_of

PLACEHOLDER = "path/to/model"
WRITTEN = "path/to/out"
SECTIONS = [each for page in PAGES for each in sections_of(page)]
_OUTPUT = doctest.OutputChecker()
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def needs_model(each: Section) -> bool:
    return any(block.language == "python" and "model" in block.words for block in each.blocks)


def cases() -> list[Any]:
    found = []
    for each in SECTIONS:
        if any(block.language == "python" for block in each.blocks):
            marks = [pytest.mark.model, pytest.mark.timeout(600)] if needs_model(each) else []
            found.append(pytest.param(each, id=each.name, marks=marks))
    return found


@pytest.fixture
def mock_by_default() -> Iterator[None]:
    sgl.set_default_backend(sgl.MockBackend())
    yield
    sgl.set_default_backend(None)


@pytest.mark.usefixtures("mock_by_default")
@pytest.mark.parametrize("each", cases())
def test_snippets_do_what_the_page_says(
    each: Section, tiny_llama_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ModuleType("program")
    program.__dict__["sgl"] = sgl
    monkeypatch.setitem(sys.modules, "program", program)  # dataclasses look their module up
    printed: str | None = None
    for block in each.blocks:
        where = f"{each.page.name}:{block.line}"
        if block.language == "python":
            assert "Runtime()" not in block.text or needs_model(each), f"{where}: mark it `model`"
            text = block.text.replace(PLACEHOLDER, str(tiny_llama_path))
            code = compile(text, "program.py", "exec", dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, program.__dict__)
            printed = output.getvalue()
        elif block.words == ("text",) and printed is not None:
            assert _OUTPUT.check_output(block.text, printed, _LENIENT), f"{where}: it is\n{printed}"
            printed = None


def shown_commands() -> dict[str, str]:
    """The commands, and what is shown of what they print."""
    found: dict[str, str] = {}
    for each in SECTIONS:
        for block in each.blocks:
            if block.language == "console":
                first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
                where = f"{each.page.name}:{block.line}"
                assert parts and not first, f"{where}: a console block begins with a command"
                for part in parts:
                    command, _, printed = part.partition("\n")
                    found[command.split("  #")[0].strip()] = printed
    return found


def commands() -> list[str]:
    return list(shown_commands())


SETTINGS = {"SGDSL_HOME", "PIP_EXTRA_INDEX_URL", "PYTHON", "ARGS"}


@pytest.mark.parametrize("command", [c for c in commands() if "bin/sgdsl" not in c])
def test_a_command_exists_and_knows_its_options(command: str) -> None:
    words = shlex.split(command)
    while "=" in words[0]:
        assert words.pop(0).split("=")[0] in SETTINGS
    called = recipe(words[1:]) if words[0] == "make" else [words]
    assert called, "a target does something"
    for program, *arguments in called:
        if program != ".venv/bin/python":
            assert (Path(sys.executable).parent / Path(program).name).exists()
            continue
        target = arguments[:2] if arguments[0] == "-m" else arguments[:1]
        if target[0] == "-m":
            assert importlib.util.find_spec(target[1]) is not None
            target += [word for word in arguments[2:3] if word.isidentifier()]  # one of several
        else:
            assert (ROOT / target[0]).is_file()
        options = {word for word in arguments[len(target) :] if word.startswith("--")}
        if options:
            assert options <= options_of(*target)


def recipe(words: list[str]) -> list[list[str]]:
    """What `make` would call, once everything is installed."""
    for word in words[1:]:
        assert word.split("=")[0] in SETTINGS
    command = ["make", "--dry-run", "--old-file=.venv/.installed", *words]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    lines = done.stdout.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith(".venv/bin/")]


@cache
def options_of(*target: str) -> set[str]:
    """One of several commands of a module is called in this process, which has torch already."""
    if len(target) == 3:
        said = called_here(target[1], target[2], "--help")
    else:
        command = [sys.executable, *target, "--help"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        said = done.stdout
    return set(re.findall(r"--[a-z][a-z-]*", said))


def called_here(module: str, *arguments: str) -> str:
    """What `python -m module arguments` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
    assert not ended.value.code
    return output.getvalue()


@pytest.mark.model
@pytest.mark.parametrize("command", [c for c in commands() if ".venv/bin/sgdsl" in c])
def test_a_command_of_ours_runs(command: str, tiny_llama_path: Path, tmp_path: Path) -> None:
    words = shlex.split(
        command.replace(PLACEHOLDER, str(tiny_llama_path)).replace(WRITTEN, str(tmp_path / "out"))
    )
    program = Path(sys.executable).parent / Path(words[0]).name
    done = subprocess.run(
        [program, *words[1:]], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout
    shown = shown_commands()[command]
    assert not shown or _OUTPUT.check_output(shown, done.stdout, _LENIENT), done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links_of(page):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors_of(linked), f"{page.name}: {target}"
