"""What the pages state is what the code has: names, options, defaults, keywords, sizes, modules."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl
from grammars import formats, keywords
from grammars.compiler import Compiler
from grammars.constraint import JsonSchema
from runtime.config import RuntimeConfig
from runtime.models.catalog import DEFAULT_MODEL
from sgdsl.arguments import RUN_ARGUMENTS
from sgdsl.backends.api_arguments import DEFAULTS
from sgdsl.backends.openai import OpenAIArguments
from sgdsl.batches import BatchArguments
from sgdsl.program import Program
from tests.docs.markdown import PAGES, ROOT, code_spans, section, sections_of

PACKAGES = ("grammars", "sgdsl", "runtime")


def rows_of(page: str, title: str) -> dict[str, list[str]]:
    """The table rows of a section whose first cell is code: its names, and the other cells."""
    found = {}
    for line in section(page, title).prose:
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.update(dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[1:]))
    return found


def spans(page: str) -> set[str]:
    path = next(each for each in PAGES if each.name == page)
    return set().union(*(code_spans(each) for each in sections_of(path)))


def missing(names: Iterable[str], page: str) -> list[str]:
    text = next(each for each in PAGES if each.name == page).read_text(encoding="utf-8")
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text) is None]


def test_the_design_names_every_module_and_no_other() -> None:
    named = {span for span in spans("design.md") if re.match(rf"({'|'.join(PACKAGES)})/", span)}
    there = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert named == there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    for span in spans(page.name):
        if re.fullmatch(r"(tests|docs|examples|benchmarks|sgdsl)/[\w/]+\.(py|md)", span):
            assert (ROOT / span).is_file(), span


def test_every_public_name_is_in_the_reference() -> None:
    assert missing(sgl.__all__, "frontend.md") == []


def test_every_argument_of_gen_is_in_the_reference_and_in_its_order() -> None:
    documented = list(rows_of("frontend.md", "Primitives"))
    arguments = list(inspect.signature(sgl.gen).parameters)
    in_table = [name for name in documented if name in arguments]
    assert sorted(in_table) == sorted(arguments)


def test_every_argument_of_run_and_run_batch_is_in_the_reference() -> None:
    own = {"self", "values", "kwargs", "batch", "options"}
    assert missing(sorted(BatchArguments.__annotations__), "frontend.md") == []
    for method in (Program.run, Program.run_batch):
        arguments = set(inspect.signature(method).parameters) - own
        assert missing(sorted(arguments | RUN_ARGUMENTS), "frontend.md") == []


def test_the_options_of_the_runtime_and_their_defaults_are_in_the_reference() -> None:
    documented = {name: cells[0] for name, cells in rows_of("runtime.md", "Options").items()}
    assert documented == {f.name: f"`{f.default}`" for f in fields(RuntimeConfig)}


def test_every_keyword_is_said_to_be_enforced_or_refused() -> None:
    prose = "\n".join(section("constraints.md", "JSON Schema").prose)
    enforced, refused = re.findall(r"\*\*(?:Enforced|Refused)[:,]\*\*(.*?)\.\s", prose, re.DOTALL)
    assert set(re.findall(r"`([$\w]+)`", enforced)) == set(keywords.ENFORCED)
    assert set(re.findall(r"`([$\w]+)`", refused)) == set(keywords.REFUSED)
    known = re.search(r"\*\*Formats:\*\*(.*?)\.", prose, re.DOTALL)
    assert known is not None
    assert set(re.findall(r"`([\w-]+)`", known[1])) == set(formats.FORMATS)


def test_the_options_of_json_schema_and_their_defaults_are_in_the_page() -> None:
    documented = {
        name: cells[0] for name, cells in rows_of("constraints.md", "JSON Schema").items()
    }
    options = list(inspect.signature(JsonSchema).parameters.values())[1:]
    assert documented == {
        option.name: "`" + repr(option.default).replace("'", '"') + "`" for option in options
    }


def test_the_limits_of_a_compile_are_the_defaults() -> None:
    prose = "\n".join(section("constraints.md", "Limits").prose).replace(",", "")
    defaults = inspect.signature(Compiler).parameters
    numbers = ["max_steps", "max_seconds", "max_lazy_steps", "max_lazy_seconds"]
    for name in numbers:
        assert f"{defaults[name].default:.0f}" in prose.split(), name
    assert defaults["max_mask_bytes"].default == 64 << 20


def test_the_sizes_in_the_readme_are_those_of_the_default_model() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    wheel, folder = DEFAULT_MODEL.wheel_bytes, DEFAULT_MODEL.folder_bytes
    assert f"{wheel / 1e6:.0f} MB for the model" in text
    assert f"{folder / 1e6:.0f} MB for the model" in text
    assert f"{(3 * wheel + folder) / 1e6:.0f} MB while it is converted" in text
    assert f"`{DEFAULT_MODEL.package}` {DEFAULT_MODEL.version}" in text


def test_the_arguments_of_backends_and_their_defaults_are_in_the_page() -> None:
    provider = list(inspect.signature(sgl.Provider).parameters.values())[1:]
    own = dict.fromkeys(["base_url", *OpenAIArguments.__annotations__])
    check_arguments("OpenAI-compatible endpoints", {**own, **DEFAULTS})
    check_arguments("Several backends", {each.name: each.default for each in provider})


def check_arguments(title: str, defaults: dict[str, Any]) -> None:
    rows = rows_of("backends.md", title)
    for name, default in defaults.items():
        assert name in rows, name
        said = re.findall(r"`([^`]+)`", rows[name][0])
        shown = repr(default).replace("'", '"')
        assert not said or shown in said, f"{name}: {said} {shown}"


LICENCES = {"Apache-2.0": "apache", "MIT": "mit", "BSD": "bsd"}


@pytest.mark.parametrize("package", rows_of("README.md", "Licences"))
def test_a_dependency_has_the_licence_that_the_readme_says(package: str) -> None:
    said = rows_of("README.md", "Licences")[package][0]
    header: Any = metadata(package)
    stated = [header.get("License-Expression"), header.get("License")]
    stated += header.get_all("Classifier") or []
    known = " ".join(
        text for text in stated if text and (" :: " not in text or text.startswith("License"))
    )
    family = next(word for name, word in LICENCES.items() if name in said)
    assert family in known.lower()


@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_main_example_ends_with_a_line_of_json() -> None:
    command = [sys.executable, "examples/extract_packages.py", "--limit", "1", "--json"]
    # On a busy machine torch's threads wait for each other many times longer than they compute.
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["rows"] == report["valid"] == 1
    assert {"agree", "tokens_per_s", "cache_hit_rate", "wall_s", "speedup_serial"} <= set(report)
