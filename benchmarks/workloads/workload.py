"""What a workload is: a program, its rows, and what their outputs are to be.

Owns the words in which every workload is told. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sgdsl.program import Program

Texts = dict[str, list[str]]
"""What a row's gens and selects were answered, by their names, in the order of the program."""


@dataclass(frozen=True)
class Row:
    """One call of the program: `arguments`, and `truth`, what its output should say, by name, as
    far as that is known.
    """

    arguments: dict[str, Any]
    truth: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Of one row. `valid`: its outputs are what was asked for, as an independent judge sees it;
    `num_right` of `num_values` values are true.
    """

    valid: bool
    num_right: int = 0
    num_values: int = 0


@dataclass(frozen=True)
class Workload:
    """`rows(count, seed)` makes rows, always the same ones. `judge` looks at the texts of any
    engine, lengths aside. `num_rows`, `num_quick`: how many rows there are unless somebody says so,
    and with `--quick`.
    """

    name: str
    program: Program[Any]
    rows: Callable[[int, int], list[Row]]
    judge: Callable[[Texts, Row], Verdict]
    num_rows: int = 16
    num_quick: int = 8


def equal_values(found: dict[str, Any], truth: dict[str, Any]) -> Verdict:
    """Of valid outputs: one value for each name of the truth."""
    return Verdict(True, sum(found[name] == truth[name] for name in truth), len(truth))
