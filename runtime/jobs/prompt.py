"""Prompts: a text with holes for columns, and examples of what is asked for.

Owns the holes, where the instruction ends and the part about one row begins, and how examples are
written before the row: so that all rows begin with the same text, which is computed once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.jobs.row import jsonable
from sgdsl.errors import UsageError

_HOLE = re.compile(r"\{\{(\w+)\}\}|\{([^\W\d]\w*)\}")
"""`{name}` is a hole, `{{name}}` the text `{name}`; other braces are text."""

TEXT_COLUMNS = ("text", "document", "content", "body")
"""What a row is about where no prompt says it: the first of these that it has."""


@dataclass(frozen=True)
class Example:
    """columns: of a row; output: what should come of it, as text."""

    columns: Mapping[str, Any]
    output: str


@dataclass(frozen=True)
class Prompt:
    """`template` as a whole; its first part, up to the last blank line before the first hole, is
    the instruction, which is said once.
    """

    template: str
    examples: Sequence[Example] = field(default=())

    def __post_init__(self) -> None:
        if not self.holes:
            raise UsageError(
                f"the prompt {self.template[:60]!r} has no hole: write {{text}} where the column "
                "'text' of a row is to stand"
            )

    @property
    def holes(self) -> tuple[str, ...]:
        """The columns that it takes."""
        found = (match[2] for match in _HOLE.finditer(self.template) if match[2])
        return tuple(dict.fromkeys(found))

    @property
    def instruction(self) -> str:
        """What stands before everything about a single row."""
        return _filled(self.template[: self._cut], {})

    @property
    def prefix(self) -> str:
        """The beginning of every row's text: the instruction and the examples."""
        shown = (f"{self.about(each.columns)}{each.output}\n\n" for each in self.examples)
        return self.instruction + "".join(shown)

    def about(self, columns: Mapping[str, Any]) -> str:
        """The part about one row."""
        return _filled(self.template[self._cut :], columns)

    @property
    def _cut(self) -> int:
        first = next(match.start() for match in _HOLE.finditer(self.template) if match[2])
        return self.template.rfind("\n\n", 0, first) + 2 if "\n\n" in self.template[:first] else 0


def default_template(columns: Sequence[str], asked: str) -> str:
    """For rows with these columns. `asked`: what is to be written, in words."""
    named = next((name for name in TEXT_COLUMNS if name in columns), None)
    if named is None and not columns:
        raise UsageError("the rows have no columns; give a prompt")
    about = f"{{{named}}}" if named else "\n".join(f"{name}: {{{name}}}" for name in columns)
    said = _HOLE.sub(lambda match: f"{{{match[0]}}}" if match[2] else match[0], asked)
    return f"{said}\n\nText:\n{about}\n\nAnswer: "


def _filled(template: str, columns: Mapping[str, Any]) -> str:
    """A text goes in as it is, anything else as JSON; null is nothing."""

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return f"{{{match[1]}}}"
        found = columns[match[2]]
        if found is None:
            return ""
        return found if isinstance(found, str) else json.dumps(jsonable(found), ensure_ascii=False)

    return _HOLE.sub(value, template)
