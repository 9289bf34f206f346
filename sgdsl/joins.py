"""What a join takes over from its forks.

Owns how their variables become lists, how their texts are appended, and what stands in place of a
fork that has failed. Knows nothing of when a join may be carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sgdsl.branch import Branch, Variable
from sgdsl.graph import Join
from sgdsl.roles import settle
from sgdsl.values import collected, gathered, leaves


def join_forks(parent: Branch, children: Sequence[Branch], join: Join) -> None:
    """Carry `join` out: its children are finished, or have failed and are collected."""
    for child in children:
        child.joined = True
    if join.mode == "concate_and_append":
        _append_texts(parent, children)
        return
    assert join.mode == "gather_variable", f"unknown join mode {join.mode!r}"
    new = dict.fromkeys(join.collect or ())
    for child in children:
        new.update((name, None) for name in child.new_names)
    gather = gathered if join.collect is None else collected
    for name in new:
        values = [_value(child, name) for child in children]
        if join.collect is not None:
            for index, child in enumerate(children):
                if child.lost(name):
                    values[index] = child.error
        texts = ", ".join(_shown(child, name) for child in children)
        parent.define(name, Variable(gather(values), f"[{texts}]"))


def collected_values(parent: Branch, children: Sequence[Branch]) -> set[int]:
    """The ids of the lazy values that the children have made: one that cannot be parsed fails its
    place in the lists of a join that collects, not the run.
    """
    theirs = {id(value) for child in children for value in leaves(child.values)}
    return theirs - {id(value) for value in parent.values}


def _append_texts(parent: Branch, children: Sequence[Branch]) -> None:
    settle(parent)
    for child in children:
        if child.error is not None:
            continue
        settle(child)
        parent.begun |= child.begun
        parent.pieces += child.pieces[child.forked_at :]
        parent.messages += child.messages[child.forked_at_message :]


def _shown(branch: Branch, name: str) -> str:
    """A variable as it stands in the text of a list, `failed` if it never came to be. Made of its
    text: `repr(value)` can be anybody's code, and the value need not be there yet.
    """
    if branch.error is not None and branch.lost(name):
        return "failed"
    variable = branch.variables.get(name)
    if variable is None:
        return str(None)
    if variable.shown is not None:
        return variable.shown
    return repr(variable.text) if isinstance(variable.value, str) else variable.text


def _value(branch: Branch, name: str) -> Any:
    variable = branch.variables.get(name)
    return None if variable is None else variable.value
