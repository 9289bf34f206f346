"""The nodes of execution graphs: frozen steps of a program, and how each is printed.

Owns what a program can consist of. Pure data: knows nothing of the order in which nodes may stand,
nor of what carrying them out means.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from grammars import Constraint
from sgdsl.constraint_names import written
from sgdsl.reasoning import SUFFIX, Tags
from sgdsl.record import record
from sgdsl.sampling import Sampling
from sgdsl.source import Source

ROOT = 0


@record
class Node:
    """One step of a graph. `id` rises in the order of the program, over all branches of a run."""

    id: int
    branch: int
    source: Source | None
    kind: ClassVar[str] = "node"

    def describe(self) -> str:
        return ""

    def __str__(self) -> str:
        return printable(f"%{self.id} {self.kind} {self.describe()}".rstrip())


def printable(text: str) -> str:
    """`text` without characters that act on a terminal or hide: they become escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, limit: int = 60) -> str:
    """`text` with its middle left out if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 12] + " ... " + text[-7:]


def asked(constraint: Constraint) -> str:
    """A constraint in few words."""
    return shorten(written(constraint))


@record
class Text(Node):
    """Literal text. Special tokens in it are plain text."""

    text: str
    kind: ClassVar[str] = "text"

    def describe(self) -> str:
        return repr(shorten(self.text))


@record
class Ref(Node):
    """The text of an earlier variable, put in without a read."""

    name: str
    kind: ClassVar[str] = "ref"

    def describe(self) -> str:
        return self.name


@record
class Gen(Node):
    """Text written by the model. `typed`: the variable is `constraint.parse(text)`, no text.
    `reasoning`: what stands between these tags is a variable of its own.
    """

    name: str | None
    sampling: Sampling = field(default_factory=Sampling)
    constraint: Constraint | None = None
    typed: bool = False
    reasoning: Tags | None = None
    kind: ClassVar[str] = "gen"

    def describe(self) -> str:
        constraint = "" if self.constraint is None else f" {asked(self.constraint)}"
        reasoning = "" if self.reasoning is None else f" reasoning={self.reasoning}"
        return f"{self.name or '_'}{constraint}{reasoning} {self.sampling}".rstrip()

    @property
    def reasoning_name(self) -> str | None:
        """The variable of its reasoning, if that is told apart."""
        return None if self.reasoning is None else f"{self.name}{SUFFIX}"


@record
class Select(Node):
    """The best of `choices` by their token log-probabilities under `method` (a `ChoicesMethod`).

    `temperature` 0 takes the best; above it samples from the probabilities at that temperature.
    """

    name: str | None
    choices: tuple[str, ...]
    method: Any
    temperature: float = 0.0
    kind: ClassVar[str] = "select"

    def describe(self) -> str:
        return f"{self.name or '_'} {shorten(repr(list(self.choices)), 100)}"


@record
class RoleBegin(Node):
    role: str
    kind: ClassVar[str] = "role"

    def describe(self) -> str:
        return f"{self.role} {{"


@record
class RoleEnd(Node):
    role: str
    kind: ClassVar[str] = "role"

    def describe(self) -> str:
        return f"}} {self.role}"


@record
class ScopeBegin(Node):
    """Everything appended until the matching `ScopeEnd` becomes the variable `name`."""

    name: str
    kind: ClassVar[str] = "scope"

    def describe(self) -> str:
        return f"{self.name} {{"


@record
class ScopeEnd(Node):
    name: str
    kind: ClassVar[str] = "scope"

    def describe(self) -> str:
        return f"}} {self.name}"


@record
class Assign(Node):
    """`s[name] = value`: no text, only the variable. `text` is what a `Ref` to it puts in; it is
    made with the node, since `str(value)` can be anybody's code.
    """

    name: str
    value: Any
    text: str
    kind: ClassVar[str] = "assign"

    def describe(self) -> str:
        return f"{self.name} = {shorten(repr(self.value))}"


@record
class Fork(Node):
    """Branches that start as copies of this one: its text, variables, messages and open role."""

    children: tuple[int, ...]
    kind: ClassVar[str] = "fork"

    def describe(self) -> str:
        return "-> " + ", ".join(f"b{child}" for child in self.children)


@record
class Join(Node):
    """Waits for `children`, then takes their work over. `mode` is one of `JOIN_MODES`. `collect`:
    failures of children stand in place of the variables that should have been, which are these;
    None: they fail this branch.
    """

    children: tuple[int, ...]
    mode: str
    collect: tuple[str, ...] | None = None
    kind: ClassVar[str] = "join"

    def describe(self) -> str:
        on_error = "" if self.collect is None else " on_error=collect"
        return f"{self.mode} <- " + ", ".join(f"b{child}" for child in self.children) + on_error


JOIN_MODES = ("gather_variable", "concate_and_append")


@record
class Check(Node):
    """A predicate looks at `name`, written by the last gen or since (None: an unnamed gen). With an
    `attempt` above 0 it has failed: the branch goes back to before that gen and writes again.
    """

    name: str | None
    retries: int
    attempt: int = 0
    kind: ClassVar[str] = "check"

    def describe(self) -> str:
        again = f" again={self.attempt}" if self.attempt else ""
        return f"{self.name or '_'} retries={self.retries}{again}"


@record
class Collect(Node):
    """Waits for `children`, each of which carries out `gen` once, and makes their outputs the list
    that is its variable. Made by the machine, never written by a program.
    """

    gen: Gen
    children: tuple[int, ...]
    kind: ClassVar[str] = "collect"

    def describe(self) -> str:
        return f"{self.gen.name or '_'} <- " + ", ".join(f"b{child}" for child in self.children)


def may_define(node: Node, name: str) -> bool:
    """Whether carrying this node out can give `name` a value (a join may define any name)."""
    match node:
        case Gen(name=own):
            return name in (own, node.reasoning_name)
        case Select(name=own) | ScopeEnd(name=own) | Assign(name=own):
            return own == name
        case Collect(gen=gen):
            return may_define(gen, name)
        case _:
            return isinstance(node, Join)
