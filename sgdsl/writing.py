"""What a node that needs no model writes on its branch: text, a variable, the ends of a message.

Owns `WRITERS`, what each kind of node does there. Knows nothing of the other branches of a run, nor
of the order in which nodes are carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grammars.json_values import is_text
from sgdsl.branch import Branch, Variable
from sgdsl.chat import ChatTemplate
from sgdsl.errors import UsageError
from sgdsl.nodes import (
    Assign,
    Gen,
    Node,
    Ref,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    Text,
)
from sgdsl.pieces import Piece
from sgdsl.reasoning import split
from sgdsl.roles import close_role, open_role, settle, write_text


def set_reasoning_aside(branch: Branch, node: Gen, text: str) -> tuple[str, str]:
    """Write the reasoning in `text`; returns the rest, and the answer in it."""
    assert node.reasoning is not None, "it is told apart"
    parts = split(node.reasoning, text, final=True)
    branch.pieces.append(Piece(text[: parts.rest_at], written=True, aside=True))
    branch.define(node.reasoning_name, Variable(parts.reasoning, parts.reasoning))
    return text[parts.rest_at :], parts.answer


def _text(branch: Branch, node: Text, _: ChatTemplate) -> None:
    if branch.around is None:
        branch.pieces.append(Piece(node.text))
    else:
        write_text(branch, node.text)


def _ref(branch: Branch, node: Ref, _: ChatTemplate) -> None:
    variable = branch.variables.get(node.name)
    if variable is None:
        raise UsageError(
            f"ref({node.name!r}): no such variable on this branch; "
            f"it has {sorted(branch.variables)!r}; generate or assign it before it is used"
        )
    if not is_text(variable.text):
        raise UsageError(
            f"ref({node.name!r}): {variable.text!r} has a lone surrogate, which is no text; "
            "encode or replace it before it is assigned"
        )
    write_text(branch, variable.text)


def _assign(branch: Branch, node: Assign, _: ChatTemplate) -> None:
    branch.define(node.name, Variable(node.value, node.text))


def _role_begin(branch: Branch, node: RoleBegin, template: ChatTemplate) -> None:
    open_role(branch, template, node.role)


def _role_end(branch: Branch, node: RoleEnd, _: ChatTemplate) -> None:  # noqa: ARG001
    close_role(branch)


def _scope_begin(branch: Branch, node: ScopeBegin, _: ChatTemplate) -> None:
    settle(branch)
    branch.scopes = (*branch.scopes, (node.name, len(branch.pieces)))


def _scope_end(branch: Branch, node: ScopeEnd, _: ChatTemplate) -> None:  # noqa: ARG001
    name, begin = branch.scopes[-1]
    branch.scopes = branch.scopes[:-1]
    text = branch.text(begin) + branch.held
    branch.define(name, Variable(text, text))


WRITERS: dict[type[Node], Callable[[Branch, Any, ChatTemplate], None]] = {
    Text: _text,
    Ref: _ref,
    Assign: _assign,
    RoleBegin: _role_begin,
    RoleEnd: _role_end,
    ScopeBegin: _scope_begin,
    ScopeEnd: _scope_end,
}
