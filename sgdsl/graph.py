"""The execution graph: frozen nodes, their check and their printed form.

Owns what a program compiles to. Pure data: knows nothing of execution, tokens, threads or backends.
A graph is a flat list of nodes in the order in which the program wrote them; `branch` says on which
line of the run a node stands (0 is the root; `Fork` opens more). The printed form is what traces,
tests, errors and docs show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

from grammars import Constraint
from grammars.json_values import is_text
from sgdsl.errors import UsageError
from sgdsl.source import Source

ROOT = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. None means: inherit from the run, and in the end from `DEFAULT_SAMPLING`.

    `max_tokens` and `min_tokens` count sampled tokens; `top_k = -1` and `top_p = 1.0` mean off;
    `temperature = 0` is greedy. `healing`: a literal's last tokens may merge into the first sampled
    one; tokens that only spell the literal again do not count.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    stop_token_ids: tuple[int, ...] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    return_logprob: bool | None = None
    healing: bool | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """This one where it says something, `defaults` where it is silent."""
        return _over(self, defaults)

    def __str__(self) -> str:
        said = ((name, getattr(self, name)) for name in _SAMPLING)
        return " ".join(f"{name}={value!r}" for name, value in said if value is not None)


_SAMPLING = tuple(field.name for field in fields(Sampling))


@lru_cache(maxsize=4096)
def _over(own: Sampling, defaults: Sampling) -> Sampling:
    """Ten thousand rows that pass the same `gen` share one."""
    said = {name: v for name in _SAMPLING if (v := getattr(own, name)) is not None}
    return replace(defaults, **said) if said else defaults


DEFAULT_SAMPLING = Sampling(
    max_tokens=128,
    min_tokens=0,
    stop=(),
    stop_token_ids=(),
    temperature=1.0,
    top_p=1.0,
    top_k=-1,
    min_p=0.0,
    frequency_penalty=0.0,
    presence_penalty=0.0,
    ignore_eos=False,
    return_logprob=False,
    healing=True,
)
"""`seed` stays None: the run draws one, and says which (`Run.seed`)."""


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a graph. `id` rises in the order of the program, over all branches of a run."""

    id: int
    branch: int
    source: Source | None
    kind: ClassVar[str] = "node"

    def describe(self) -> str:
        return ""

    def __str__(self) -> str:
        return f"%{self.id} {self.kind} {self.describe()}".rstrip()


def shorten(text: str, limit: int = 60) -> str:
    """`text` with its middle left out if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 12] + " ... " + text[-7:]


@dataclass(frozen=True, slots=True)
class Text(Node):
    """Literal text. Special tokens in it are plain text."""

    text: str
    kind: ClassVar[str] = "text"

    def describe(self) -> str:
        return repr(shorten(self.text))


@dataclass(frozen=True, slots=True)
class Ref(Node):
    """The text of an earlier variable, put in without a read."""

    name: str
    kind: ClassVar[str] = "ref"

    def describe(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Gen(Node):
    """Text written by the model. `typed`: the variable is `constraint.parse(text)`, no text."""

    name: str | None
    sampling: Sampling = field(default_factory=Sampling)
    constraint: Constraint | None = None
    typed: bool = False
    kind: ClassVar[str] = "gen"

    def describe(self) -> str:
        constraint = "" if self.constraint is None else f" {shorten(repr(self.constraint), 100)}"
        return f"{self.name or '_'}{constraint} {self.sampling}".rstrip()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class RoleBegin(Node):
    role: str
    kind: ClassVar[str] = "role"

    def describe(self) -> str:
        return f"{self.role} {{"


@dataclass(frozen=True, slots=True)
class RoleEnd(Node):
    role: str
    kind: ClassVar[str] = "role"

    def describe(self) -> str:
        return f"}} {self.role}"


@dataclass(frozen=True, slots=True)
class ScopeBegin(Node):
    """Everything appended until the matching `ScopeEnd` becomes the variable `name`."""

    name: str
    kind: ClassVar[str] = "scope"

    def describe(self) -> str:
        return f"{self.name} {{"


@dataclass(frozen=True, slots=True)
class ScopeEnd(Node):
    name: str
    kind: ClassVar[str] = "scope"

    def describe(self) -> str:
        return f"}} {self.name}"


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Fork(Node):
    """Branches that start as copies of this one: its text, variables, messages and open role."""

    children: tuple[int, ...]
    kind: ClassVar[str] = "fork"

    def describe(self) -> str:
        return "-> " + ", ".join(f"b{child}" for child in self.children)


@dataclass(frozen=True, slots=True)
class Join(Node):
    """Waits for `children`, then takes their work over. `mode` is one of `JOIN_MODES`."""

    children: tuple[int, ...]
    mode: str
    kind: ClassVar[str] = "join"

    def describe(self) -> str:
        return f"{self.mode} <- " + ", ".join(f"b{child}" for child in self.children)


JOIN_MODES = ("gather_variable", "concate_and_append")


class Shape:
    """What a graph's nodes so far allow next: open roles and scopes, live branches, names.

    `admit` is the check that runs on every node of every build, carried out once.
    """

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[str, str]]] = {ROOT: []}
        self._joined: set[int] = set()
        self._inherited: dict[int, frozenset[str]] = {ROOT: frozenset()}
        self._forked_in: dict[int, str | None] = {}  # the role that was open at the fork
        self._with_roles: set[int] = set()  # branches on which roles began or ended
        self._last_id = -1
        self.names: dict[int, dict[str, None]] = {ROOT: {}}
        """What the nodes of a branch define, in their order."""
        self.num_unnamed: dict[int, int] = {ROOT: 0}

    @property
    def next_id(self) -> int:
        return self._last_id + 1

    def admit_all(self, nodes: Sequence[Node]) -> None:
        """All of these nodes of one branch, or none of them."""
        if len(nodes) < 2:
            for node in nodes:
                self.admit(node)
            return
        branch, last_id = nodes[0].branch, self._last_id
        before = (list(self._open[branch]), dict(self.names[branch]), self.num_unnamed[branch])
        with_roles = branch in self._with_roles
        try:
            for node in nodes:
                assert node.branch == branch, "what is written at once stands on one branch"
                assert not isinstance(node, Fork | Join), "forks and joins are written alone"
                self.admit(node)
        except BaseException:
            self._open[branch], self.names[branch], self.num_unnamed[branch] = before
            if not with_roles:
                self._with_roles.discard(branch)
            self._last_id = last_id
            raise

    def admit(self, node: Node) -> None:
        assert node.id > self._last_id, "node ids rise in program order"
        if node.branch in self._joined:
            raise UsageError(
                f"{node} at {node.source}: this fork has been joined, nothing can be appended to "
                "it any more; append to its parent, or join later"
            )
        assert node.branch in self._open, "a branch exists before its nodes"
        match node:
            case Text(text=text):
                if not is_text(text):
                    raise UsageError(
                        f"{node} at {node.source}: a lone surrogate is no text; "
                        "encode or replace it"
                    )
            case Gen(name=name) | Select(name=name):
                self._define(node.branch, name)
            case Assign(name=name):
                self._define(node.branch, name)
            case Ref(name=name):
                self._require(node, name)
            case RoleBegin() | RoleEnd() | ScopeBegin() | ScopeEnd():
                self._bracket(node)
            case Fork():
                self._fork(node)
            case Join():
                self._join(node)
            case _:
                pass
        self._last_id = node.id

    def _define(self, branch: int, name: str | None) -> None:
        if name is None:
            self.num_unnamed[branch] += 1
        else:
            self.names[branch][name] = None

    def _require(self, node: Node, name: str) -> None:
        names = self.names[node.branch]
        if name not in names:
            raise UsageError(
                f"{node} at {node.source}: no variable {name!r} on this branch, it has "
                f"{list(names)}; generate or assign it before it is used"
            )

    def _bracket(self, node: RoleBegin | RoleEnd | ScopeBegin | ScopeEnd) -> None:
        stack = self._open[node.branch]
        match node:
            case RoleBegin(role=role):
                opened = self._role(node.branch)
                if opened is not None:
                    raise UsageError(
                        f"{node} at {node.source}: role {opened!r} is still open; "
                        "close it before another role begins"
                    )
                stack.append(("role", role))
            case ScopeBegin(name=name):
                stack.append(("scope", name))
            case RoleEnd(role=name) | ScopeEnd(name=name):
                if not stack or stack[-1] != (node.kind, name):
                    last = f"{stack[-1][0]} {stack[-1][1]!r}" if stack else "nothing"
                    raise UsageError(
                        f"{node} at {node.source}: closes {node.kind} {name!r}, "
                        f"but {last} is open; close what was opened last"
                    )
                stack.pop()
                if isinstance(node, ScopeEnd):
                    self._define(node.branch, name)
        if isinstance(node, RoleBegin | RoleEnd):
            self._with_roles.add(node.branch)

    def _role(self, branch: int) -> str | None:
        """The role that is open on the branch; roles do not nest."""
        return next((name for kind, name in self._open[branch] if kind == "role"), None)

    def _fork(self, node: Fork) -> None:
        parent = node.branch
        for child in node.children:
            assert child not in self._open, "a branch is opened once"
            self._open[child] = [entry for entry in self._open[parent] if entry[0] == "role"]
            self.names[child] = dict(self.names[parent])
            self._inherited[child] = frozenset(self.names[parent])
            self._forked_in[child] = self._role(parent)
            self.num_unnamed[child] = self.num_unnamed[parent]

    def _join(self, node: Join) -> None:
        if node.mode not in JOIN_MODES:
            raise UsageError(
                f"{node} at {node.source}: mode {node.mode!r} is not allowed; "
                f"it is one of {', '.join(JOIN_MODES)}"
            )
        for child in node.children:
            if child in self._joined:
                raise UsageError(
                    f"{node} at {node.source}: fork b{child} has been joined already; "
                    "a fork is joined once"
                )
            scopes = [name for kind, name in self._open[child] if kind == "scope"]
            if scopes:
                raise UsageError(
                    f"{node} at {node.source}: scope {scopes[-1]!r} of fork b{child} is still "
                    "open; close it before the join"
                )
            if node.mode == "concate_and_append" and child in self._with_roles:
                self._check_roles(node, child)
        for child in node.children:
            if node.mode == "gather_variable":
                for name in self.names[child]:
                    if name not in self._inherited[child]:
                        self._define(node.branch, name)
            elif child in self._with_roles:
                self._with_roles.add(node.branch)
        self._joined.update(node.children)

    def _check_roles(self, join: Join, child: int) -> None:
        """The fork's text is appended: what it says of roles must be whole messages, or template
        text would end up inside of a message.
        """
        reason = None
        if (inherited := self._forked_in[child]) is not None:
            reason = (
                f"fork b{child} has closed the role {inherited!r}, which was open at the fork; "
                "close it on the parent, after the join"
            )
        elif (own := self._role(child)) is not None:
            reason = f"role {own!r} of fork b{child} is still open; close it before the join"
        elif (outer := self._role(join.branch)) is not None:
            reason = (
                f"fork b{child} has messages of its own, but role {outer!r} is open here; "
                "close it before the join"
            )
        if reason is not None:
            raise UsageError(f"{join} at {join.source}: {reason}")


@dataclass(frozen=True, slots=True)
class Graph:
    """A program with its nodes; what `trace()` returns. Checked at construction."""

    name: str
    parameters: tuple[str, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raises `UsageError` at the first node that cannot stand where it stands."""
        shape = Shape()
        for node in self.nodes:
            shape.admit(node)

    def branch(self, branch: int) -> Iterator[Node]:
        return (node for node in self.nodes if node.branch == branch)

    def __str__(self) -> str:
        head = f"graph {self.name}({', '.join(self.parameters)})"
        return "\n".join([head, *self._lines(ROOT, "  ")])

    def _lines(self, branch: int, indent: str) -> Iterator[str]:
        for node in self.branch(branch):
            yield f"{indent}{node}"
            if isinstance(node, Fork):
                for child in node.children:
                    yield f"{indent}  b{child}:"
                    yield from self._lines(child, indent + "    ")


def may_define(node: Node, name: str) -> bool:
    """Whether carrying this node out can give `name` a value (a join may define any name)."""
    match node:
        case Gen(name=own) | Select(name=own) | ScopeEnd(name=own) | Assign(name=own):
            return own == name
        case _:
            return isinstance(node, Join)
