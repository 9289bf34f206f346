"""A second meaning of programs, for comparison: random programs and a direct interpreter.

The interpreter works on plain values, one statement after another, and knows no graph. What the
model writes depends on the whole prompt, so that text in the wrong place shows in every later gen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from sgdsl import CheckFailed, ProgramState, gen, select
from sgdsl.backends.script import Request
from sgdsl.chat import ROLES, ChatTemplate
from sgdsl.seeds import derive_seed

TEMPLATE = ChatTemplate(
    name="test",
    prefixes={role: f"<{role}>" for role in ROLES},
    suffixes=dict.fromkeys(ROLES, "</>"),
    default_system_prompt="Be good.",
)
NAMES = ("a", "b", "c")
CHOICES = ("left", "right")


@dataclass(frozen=True)
class Step:
    """`name` is a variable, a role or a join's mode, whatever the kind needs."""

    kind: str
    name: str = ""
    text: str = ""
    bodies: tuple[tuple[Step, ...], ...] = ()


def answer(prompt: str, seed: int | None = None) -> str:
    """`seed`: of a gen that has one of its own, as what is written again has."""
    own = "" if seed is None else f"{seed % 97}"
    return f"[{sum(prompt.encode()) * 31 + len(prompt)}]{own}"


def reply(request: Request) -> str:
    return answer(request.prompt, request.sampling.seed)


RETRIES = 2


def passes(value: Any) -> bool:
    """What a check asks for: every other value does not pass."""
    return sum(str(value).encode()) % 2 == 0


def programs(*, in_role: bool = False, depth: int = 2) -> st.SearchStrategy[tuple[Step, ...]]:
    names = st.sampled_from(NAMES)
    leaves = [
        st.builds(Step, st.just("text"), text=st.text("xyz \n", max_size=4)),
        st.builds(Step, st.sampled_from(["gen", "select", "ref", "read", "assign"]), names),
        st.sampled_from([Step("gen"), Step("read_text"), Step("read_messages"), Step("nothing")]),
        st.builds(Step, st.sampled_from(["gens", "checked", "checked_gens"]), names),
        st.builds(Step, st.just("checked"), names, text=st.text("xyz", max_size=2)),
        st.builds(Step, st.just("checked_scope"), names, text=st.text("xyz", max_size=2)),
    ]
    if depth > 0:
        inner = programs(in_role=in_role, depth=depth - 1)
        leaves.append(st.builds(Step, st.just("scope"), names, bodies=st.tuples(inner)))
        forks = st.lists(inner, min_size=1, max_size=3).map(tuple)
        modes = st.sampled_from(["gather_variable", "concate_and_append", ""])
        leaves.append(st.builds(Step, st.just("fork"), modes, bodies=forks))
        if not in_role:
            inside = programs(in_role=True, depth=depth - 1)
            roles = st.sampled_from(ROLES)
            leaves.append(st.builds(Step, st.just("role"), roles, bodies=st.tuples(inside)))
    return st.lists(st.one_of(leaves), max_size=5).map(tuple)


def perform(s: ProgramState, steps: Sequence[Step], seen: list[Any]) -> None:  # noqa: C901, PLR0912
    """Write a program with the public interface; what it reads goes to `seen`."""
    for step in steps:
        match step.kind:
            case "text":
                s += step.text
            case "gen":
                s += gen(step.name or None)
            case "select":
                s += select(step.name, CHOICES)
            case "ref":
                if step.name in s:
                    s += s.ref(step.name)
            case "read":
                seen.append(s[step.name] if step.name in s else None)  # noqa: SIM401 - no dict
            case "assign":
                s[step.name] = len(step.name)
            case "gens":
                s += gen(step.name, n=2)
            case "nothing":
                s += gen(max_tokens=0)
            case "checked" | "checked_gens" | "checked_scope":
                _perform_checked(s, step)
            case "read_text":
                seen.append(s.text())
            case "read_messages":
                seen.append(s.messages())
            case "scope":
                with s.var_scope(step.name):
                    perform(s, step.bodies[0], seen)
            case "role":
                with getattr(s, step.name)():
                    perform(s, step.bodies[0], seen)
            case "fork":
                forks = s.fork(len(step.bodies))
                for fork, body in zip(forks, step.bodies, strict=True):
                    perform(fork, body, seen)
                if step.name:
                    forks.join(step.name)


def _perform_checked(s: ProgramState, step: Step) -> None:
    match step.kind:
        case "checked":
            s += gen(step.name) + step.text
        case "checked_gens":
            s += gen(step.name, n=3)
        case "checked_scope":
            with s.var_scope(step.name):
                s += step.text + gen() + step.text
    with suppress(CheckFailed):  # what was written last stands
        s.check(passes, retries=RETRIES, name=step.name)


@dataclass
class Naive:
    text: str = ""
    variables: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    messages: list[dict[str, str]] = field(default_factory=list)
    role_start: int = 0
    seed: int = 0

    def define(self, name: str, value: Any, text: str) -> None:
        self.variables[name] = value
        self.texts[name] = text

    def open_role(self, role: str) -> None:
        if not self.messages and role != "system":
            self.open_role("system")
            self.text += str(TEMPLATE.default_system_prompt)
            self.close_role("system")
        self.text += TEMPLATE.prefixes[role]
        self.role_start = len(self.text)

    def close_role(self, role: str) -> None:
        self.messages.append({"role": role, "content": self.text[self.role_start :]})
        self.text += TEMPLATE.suffixes[role]

    def copy(self) -> Naive:
        copied = (dict(self.variables), dict(self.texts), list(self.messages))
        return Naive(self.text, *copied, self.role_start, self.seed)

    def perform(self, steps: Sequence[Step], seen: list[Any]) -> None:  # noqa: C901, PLR0912
        for step in steps:
            match step.kind:
                case "text":
                    self.text += step.text
                case "gen" | "select":
                    text = answer(self.text) if step.kind == "gen" else CHOICES[0]
                    self.text += text
                    if step.name:
                        self.define(step.name, text, text)
                case "gens":
                    self.gens(step.name, 2, attempt=0)
                case "checked" | "checked_gens" | "checked_scope":
                    self.checked(step)
                case "ref":
                    self.text += self.texts.get(step.name, "")
                case "read":
                    seen.append(self.variables.get(step.name))
                case "assign":
                    self.define(step.name, len(step.name), str(len(step.name)))
                case "read_text":
                    seen.append(self.text)
                case "read_messages":
                    seen.append(list(self.messages))
                case "scope":
                    start = len(self.text)
                    self.perform(step.bodies[0], seen)
                    self.define(step.name, self.text[start:], self.text[start:])
                case "role":
                    self.open_role(step.name)
                    self.perform(step.bodies[0], seen)
                    self.close_role(step.name)
                case "fork":
                    self.fork(step, seen)

    def fork(self, step: Step, seen: list[Any]) -> None:
        children = [self.copy() for _ in step.bodies]
        before = set(self.variables)
        start, num_messages = len(self.text), len(self.messages)
        for child, body in zip(children, step.bodies, strict=True):
            child.perform(body, seen)
        if step.name == "concate_and_append":
            self.text += "".join(child.text[start:] for child in children)
            for child in children:
                self.messages += child.messages[num_messages:]
        elif step.name == "gather_variable":
            names = {name for child in children for name in child.variables} - before
            for name in names:
                values = [child.variables.get(name) for child in children]
                self.define(name, values, str(values))

    def draw(self, attempt: int, index: int = 0) -> str:
        """What is written at an attempt, as one of several."""
        salt = attempt << 32 | index
        return answer(self.text, derive_seed(self.seed, salt) if salt else None)

    def gens(self, name: str, num: int, *, attempt: int) -> None:
        values = [self.draw(attempt, index) for index in range(num)]
        self.text += values[0]
        self.define(name, values, values[0])

    def checked(self, step: Step) -> None:
        before = self.copy()
        for attempt in range(RETRIES + 1):
            now = before.copy()
            if step.kind == "checked_gens":
                now.gens(step.name, 3, attempt=attempt)
            else:
                start = len(now.text)
                now.text += step.text if step.kind == "checked_scope" else ""
                value = now.draw(attempt)
                now.text += value + step.text
                if step.kind == "checked_scope":
                    value = now.text[start:]
                now.define(step.name, value, value)
            if passes(now.variables[step.name]):
                break
        self.text, self.variables, self.texts = now.text, now.variables, now.texts
