"""The official JSON Schema suite, draft 2020-12: a schema is refused, or nothing wrong is accepted.

What is valid and not accepted is so by a documented choice of what we write; such cases are listed
by the reason in `NARROWER`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grammars import EmptyLanguageError, JsonSchema, UnsupportedError, accepts

SUITE = Path(__file__).parents[3] / "shared" / "data" / "json-schema-test-suite"
FILES = sorted(SUITE.glob("tests/draft2020-12/*.json"))

NARROWER = {
    "undeclared members are not written beside declared ones": {
        "an additional valid property is valid",
        "additional properties are allowed",
        "allOf",
        "valid",
        "both anyOf valid (complex)",
        "doesn't invalidate other properties",
        "no validation: invalid number, but it still validates",
    },
    "a number has one spelling in a constant, and an integer no fraction": {
        "float zero is valid",
        "float one is valid",
        "float is valid",
        "integer -2 is valid",
        "[0.0] is valid",
        "[1.0] is valid",
        "a float with zero fractional part is an integer",
    },
    "a constant's members have one order": {
        "same object with different property order is valid",
    },
    "formats are enforced": {
        f"invalid {name} string is only an annotation by default"
        for name in ("email", "ipv4", "date", "date-time", "time", "uuid")
    },
}


def test_the_suite_is_there() -> None:
    if not FILES:
        pytest.skip("the official suite is not beside the repository")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_wrong_is_accepted(path: Path) -> None:
    known = set().union(*NARROWER.values())
    for group in json.loads(path.read_text(encoding="utf-8")):
        for test in group["tests"]:
            found = verdict(group["schema"], test["data"])
            if found is None or found == test["valid"]:
                continue
            where = (group["description"], test["description"])
            assert not found, f"wrongly accepted: {where}"
            assert test["description"] in known, f"wrongly rejected: {where}"


def verdict(schema: Any, value: Any) -> bool | None:
    """Whether `value` is accepted, compactly written; None when the schema is refused."""
    try:
        constraint = JsonSchema(json.dumps(schema))
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return accepts(constraint, text)
    except EmptyLanguageError:
        return False
    except UnsupportedError:
        return None
