"""How messages are written on a branch: what a template puts around them, and what it trims.

Owns the opening, the content and the closing of a role. Knows a branch by its pieces and messages;
knows nothing of nodes or drivers.
"""

from __future__ import annotations

from typing import Protocol

from sgdsl.chat import Around, ChatTemplate
from sgdsl.errors import UsageError
from sgdsl.pieces import Piece


class Branch(Protocol):
    """What of a branch has to do with messages. `around`: of the open one; `begun`: it has content;
    `held`: white space that its template takes away if the message ends there.
    """

    pieces: list[Piece]
    messages: tuple[dict[str, str], ...]
    role: str | None
    role_start: int
    around: Around | None
    begun: bool
    held: str


def open_role(branch: Branch, template: ChatTemplate, role: str) -> None:
    """A message of `role` begins. Raises `UsageError` where the template has no place for one."""
    prompt = template.default_system_prompt
    if not branch.messages and role != "system" and prompt is not None:
        open_role(branch, template, "system")
        branch.pieces.append(Piece(prompt))
        close_role(branch)
    around = template.around([message["role"] for message in branch.messages], role)
    if around.refusal is not None:
        raise UsageError(around.refusal)
    branch.role = role
    branch.around = around
    branch.begun = False
    branch.pieces.append(Piece(around.prefix, special=True))
    branch.role_start = len(branch.pieces)


def close_role(branch: Branch) -> None:
    assert branch.role is not None and branch.around is not None, "a role that closes was open"
    _begin_content(branch, branch.around.literal)
    branch.held = ""  # white space at the end of a message that its template trims
    content = "".join([p.text for p in branch.pieces[branch.role_start :] if not p.aside])
    if not content:
        branch.around.refuse_empty(branch.role)
    branch.messages = (*branch.messages, {"role": branch.role, "content": content})
    branch.pieces.append(Piece(branch.around.suffix, special=True))
    branch.role = branch.around = None


def write_text(branch: Branch, text: str) -> None:
    """Text of the program's. In a role whose template trims, white space is held back until
    something follows it that is not white space.
    """
    around = branch.around
    if around is None:
        branch.pieces.append(Piece(text))
        return
    if around.trim:
        text, branch.held = branch.held + text, ""
        if around.trim != "right" and not branch.begun:
            text = text.lstrip()
        if around.trim != "left":
            kept = text.rstrip()
            text, branch.held = kept, text[len(kept) :]
    if text:
        _begin_content(branch, around.literal)
        branch.pieces.append(Piece(text))


def settle(branch: Branch) -> None:
    """Write the white space that is held back: it is not the end of its message."""
    if branch.held:
        branch.pieces.append(Piece(branch.held))
        branch.held = ""


def before_model(branch: Branch) -> None:
    """The model goes on from here; where it begins a message, with the cue of the template."""
    settle(branch)
    if branch.around is not None:
        _begin_content(branch, branch.around.cue)


def _begin_content(branch: Branch, opening: str) -> None:
    """Template text before the first piece of a message's content."""
    if opening and not branch.begun:
        branch.pieces.append(Piece(opening, special=True, aside=True))
    branch.begun = True
