"""The official JSON Schema suite as data: its cases, its remotes, and what becomes of each case.

Owns where the suite lies and how a case is judged. `keywords_page` is the table in
docs/keywords.md; write it anew with `python -m tests.grammars.official_suite`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from grammars import EmptyLanguageError, JsonSchema, UnsupportedError, accepts

ROOT = Path(__file__).parents[2]
SUITE = ROOT.parent / "shared" / "data" / "json-schema-test-suite"
TESTS = SUITE / "tests" / "draft2020-12"
FILES = sorted(TESTS.glob("*.json"))
FORMAT_FILES = sorted(TESTS.glob("optional/format/*.json"))
PAGE = ROOT / "docs" / "keywords.md"
ABSENT = "the official suite is not beside the repository"

METASCHEMAS = (
    "schema", "meta/core", "meta/applicator", "meta/unevaluated", "meta/validation",
    "meta/meta-data", "meta/format-annotation", "meta/content",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One value and whether it is valid. `text` is the schema's; `of_format`: it is of the part of
    the suite in which formats are more than annotations."""

    file: str
    group: str
    name: str
    text: str
    value: Any
    is_valid: bool
    of_format: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `refusal` says why the schema was refused, '' when it was not."""

    case: Case
    is_accepted: bool
    refusal: str = ""

    @property
    def is_right(self) -> bool:
        return not self.refusal and self.is_accepted == self.case.is_valid

    @property
    def is_wrong(self) -> bool:
        return not self.refusal and self.is_accepted != self.case.is_valid


def cases_of(path: Path) -> Iterator[Case]:
    """The cases of one file."""
    for group in json.loads(path.read_text(encoding="utf-8")):
        text = json.dumps(group["schema"])
        for test in group["tests"]:
            yield Case(
                path.stem,
                group["description"],
                test["description"],
                text=text,
                value=test["data"],
                is_valid=test["valid"],
                of_format=path.parent.name == "format",
            )


def remotes() -> dict[str, Any]:
    """The schemas that the suite refers to, by the URIs that it has for them."""
    folder = SUITE / "remotes"
    found = {
        f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(folder.rglob("*.json"))
        if path.relative_to(folder).parts[0] == "draft2020-12"
    }
    for name in METASCHEMAS:
        uri = f"https://json-schema.org/draft/2020-12/{name}"
        found[uri] = REGISTRY.contents(uri)
    return found


def outcome(
    case: Case, *, resources: Mapping[str, Any] | None = None, property_order: Any = "any"
) -> Outcome:
    """What becomes of a case."""
    formats: Any = "enforce" if case.of_format else "ignore"
    try:
        constraint = JsonSchema(
            case.text, property_order=property_order, formats=formats, resources=resources
        )
        text = json.dumps(case.value, ensure_ascii=False, separators=(",", ":"))
        return Outcome(case, accepts(constraint, text))
    except EmptyLanguageError:
        return Outcome(case, is_accepted=False)
    except UnsupportedError as error:
        return Outcome(case, is_accepted=False, refusal=str(error))


def outcomes(path: Path) -> list[Outcome]:
    """What becomes of the cases of a file, in which a reference leads nowhere but where it is."""
    return [outcome(case) for case in cases_of(path)]


def with_remotes(found: list[Outcome], resources: Mapping[str, Any]) -> list[Outcome]:
    """The same with the suite's remotes at hand: they matter to what was refused, if to any."""
    return [
        outcome(each.case, resources=resources) if "resources=" in each.refusal else each
        for each in found
    ]


# -- the page --------------------------------------------------------------------------------------

_HEAD = """\
# Keywords

What becomes of the cases of the official
[JSON Schema suite](https://github.com/json-schema-org/JSON-Schema-Test-Suite), draft 2020-12: a
row for each of its files. A case is right when a valid value is accepted (compactly written, its
members in any order), and any other is not. A schema that asks for what is not enforced is refused:
none of its cases counts as right. What each keyword means here is in
[Constraints](constraints.md#json-schema).

This page is written by `python -m tests.grammars.official_suite`, from the suite's files in
`../shared/data`. A test compares the two.

## Keywords, file by file
"""

_FORMATS = """\

## Formats

The same with formats enforced. Narrower: it is valid, but not written, since readers in Python do
not take it (leap seconds, fractions of a nanosecond, long durations), or since telling it takes
more than a pattern (names in Punycode, domains beyond ASCII).

| format | cases | right | narrower | refused | wrong | what is refused |
|---|---|---|---|---|---|---|
"""


def keywords_page() -> str:
    """The page, from the suite as it lies there."""
    resources = remotes()
    alone = {path.stem: outcomes(path) for path in FILES}
    helped = {name: with_remotes(found, resources) for name, found in alone.items()}
    is_right = [sum(o.is_right for found in f.values() for o in found) for f in (alone, helped)]
    num_cases = sum(map(len, alone.values()))
    lines = [
        _HEAD,
        f"{is_right[1]:,} of {num_cases:,} cases are right when the schemas that others refer to",
        f"are given as `resources=`, {is_right[0]:,} when none is. The table is that with them.",
        "Formats are annotations here, as they are in the draft.",
        "",
        "| file | cases | right | refused | wrong | what is refused |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in helped.items():
        refused, wrong = sum(bool(o.refusal) for o in found), sum(o.is_wrong for o in found)
        cells = [f"`{name}`", len(found), sum(o.is_right for o in found), refused, wrong]
        lines.append(_row([*cells, _reasons(found)]))
    formats = []
    for path in FORMAT_FILES:
        found = outcomes(path)
        narrower = sum(o.is_wrong and o.case.is_valid for o in found)
        refused, wrong = sum(bool(o.refusal) for o in found), sum(o.is_wrong for o in found)
        cells = [f"`{path.stem}`", len(found), sum(o.is_right for o in found)]
        formats.append(_row([*cells, narrower, refused, wrong - narrower, _reasons(found)]))
    return "\n".join(lines) + "\n" + _FORMATS + "\n".join(formats) + "\n"


def _row(cells: list[Any]) -> str:
    return "| " + " | ".join(str(cell) if cell != 0 else "" for cell in cells) + " |"


def _reasons(found: list[Outcome]) -> str:
    return "; ".join(dict.fromkeys(_reason(each.refusal) for each in found if each.refusal))


def _reason(refusal: str) -> str:
    """The sentence of a refusal without its place."""
    if "the dialect" in refusal:
        return "a `$schema` of one's own"
    what = refusal.removeprefix("the schema has ").split(" at /")[0].split(" at http")[0]
    return what.replace("'", "`")


if __name__ == "__main__":
    PAGE.write_text(keywords_page(), encoding="utf-8")
