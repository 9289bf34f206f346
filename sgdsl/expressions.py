"""What a program can append: text and model steps, joined with `+`.

Owns `Expr`, an immutable row of node makers that have no place in a graph yet, and `Hole`, the name
that stands for a value in a trace. Knows nothing of states, runs or backends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from sgdsl.errors import TraceError, UsageError
from sgdsl.graph import Node, RoleBegin, RoleEnd, Text
from sgdsl.source import Source, user_source

Part = Callable[[int, int, Source | None], Node]
"""Makes a node from its id, its branch and its source line."""

MAX_SHARED = 64
"""Places in a graph for which a part keeps its node."""


class Shared(partial[Node]):
    """A part without what differs from row to row: all that pass the same line share its node."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._made: dict[tuple[int, int], Node] = {}

    def __call__(self, id_: int, branch: int, source: Source | None) -> Node:
        node = self._made.get((id_, branch))
        if node is None or node.source is not source:
            node = super().__call__(id_, branch, source)
            if len(self._made) < MAX_SHARED:
                self._made[id_, branch] = node
        return node


class Expr:
    """Something to append to a state: `s += "Q: " + gen("answer")`. Not a value: it is read from
    the state, by its variable, after it has been appended.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def __add__(self, other: object) -> Expr:
        parts = _parts(other)
        if parts is None:
            _refuse_part(f"{self!r} + ...", other)
        return Expr((*self.parts, *parts))

    def __radd__(self, other: object) -> Expr:
        parts = _parts(other)
        if parts is None:
            _refuse_part(f"... + {self!r}", other)
        return Expr((*parts, *self.parts))

    def __format__(self, spec: str) -> str:
        raise UsageError(
            f"{self!r} was put into a string; an expression has no text yet: join it with +, "
            'as in s += "Q: " + gen("answer")'
        )

    def __bool__(self) -> bool:
        raise UsageError(
            f"{self!r} was used as a condition; an expression has no value: append it to the "
            "state, then read its variable"
        )

    if not TYPE_CHECKING:  # else every attribute would be one to a type checker

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name in Expr.__slots__:
                raise AttributeError(name)  # protocols look; a copy in the making has no parts
            raise AttributeError(
                f"{self!r} has no .{name}: an expression is no value; append it with s += ..., "
                'then read its variable, as in s["answer"]'
            )

    def __repr__(self) -> str:
        return " + ".join(_show(part) for part in self.parts) or "''"


def parts_of(value: object, where: str) -> tuple[Part, ...]:
    """`value` as parts, if it is a `str` or an expression."""
    parts = _parts(value)
    if parts is None:
        _refuse_part(where, value)
    return parts


def _parts(value: object) -> tuple[Part, ...] | None:
    if isinstance(value, str):
        return (partial(Text, text=value),) if value else ()
    return value.parts if isinstance(value, Expr) else None


def _refuse_part(where: str, value: object) -> NoReturn:
    raise UsageError(
        f"{where}: {value!r} is no text; only str and expressions (gen, select, user, ...) can be "
        "joined and appended; turn other values into text with str(...)"
    )


@cache
def role_begin(role: str) -> Part:
    """A message of `role` begins."""
    return Shared(RoleBegin, role=role)


@cache
def role_end(role: str) -> Part:
    """A message of `role` ends."""
    return Shared(RoleEnd, role=role)


def _show(part: Part) -> str:
    assert isinstance(part, partial), "parts are partial nodes"
    if part.func is Text:
        return repr(part.keywords["text"])
    return str(part(0, 0, None)).removeprefix("%0 ")


class Hole(Expr):
    """A value that a trace does not have, by its name; `text` is how it shows inside of text.

    It can be appended, joined with + and put into f-strings. Everything that needs the value
    itself raises `TraceError`.
    """

    __slots__ = ("label", "text")

    def __init__(self, label: str, text: str) -> None:
        super().__init__((partial(Text, text=text),))
        self.label = label
        self.text = text

    def __add__(self, other: object) -> Expr:
        if isinstance(other, Hole):
            return Hole(f"{self.label} + {other.label}", self.text + other.text)
        return (
            Hole(self.label, self.text + other)
            if isinstance(other, str)
            else super().__add__(other)
        )

    def __radd__(self, other: object) -> Expr:
        return (
            Hole(self.label, other + self.text)
            if isinstance(other, str)
            else super().__radd__(other)
        )

    def __format__(self, spec: str) -> str:
        return f"{self.text[:-1]}:{spec}}}" if spec and self.text.endswith("}") else self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def needed(self, what: str) -> NoReturn:
        raise TraceError(
            f"{self.label} has no value in a trace, and {user_source()} needs {what}; "
            "give the argument to trace(), or keep the trace on names (+ and f-strings)"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that only look whether there is such a method
            raise AttributeError(name)
        self.needed(f"its .{name}")

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - it raises
        self.needed("it as a condition")

    def __eq__(self, other: object) -> bool:
        self.needed("to compare it")

    def __hash__(self) -> NoReturn:  # noqa: PLE0309 - it raises
        self.needed("to look it up")


def _refusing(what: str) -> Callable[..., Any]:
    def method(self: Hole, *_: object) -> Any:
        self.needed(what)

    return method


for _what, _names in {
    "to iterate over it": "__iter__ __reversed__ __next__",
    "its length": "__len__",
    "to look into it": "__contains__ __getitem__",
    "to compare it": "__ne__ __lt__ __le__ __gt__ __ge__",
    "it as a number": "__int__ __float__ __index__ __complex__ __round__ __neg__ __abs__",
    "to calculate with it": (
        "__sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ "
        "__mod__ __rmod__ __pow__ __rpow__ __and__ __rand__ __or__ __ror__"
    ),
    "to call it": "__call__",
}.items():
    for _name in _names.split():
        setattr(Hole, _name, _refusing(_what))
