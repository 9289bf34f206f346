"""What a branch looks like to a provider: its text, or its messages and the one that is open.

Owns that reading of a branch. Knows nothing of any provider's format.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgdsl.errors import UsageError
from sgdsl.graph import shorten
from sgdsl.machine import Branch, Piece


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text`: all of it, as the chat template writes it. `messages`: the finished ones, as (role,
    content). `role`: the open one, None outside; `begun`: what it says already (outside of a role:
    what the model has written behind the last message).
    """

    text: str
    messages: tuple[tuple[str, str], ...] = ()
    role: str | None = None
    begun: str = ""
    outside: str = ""
    """The program's own text that stands beside messages, in none of them."""

    @property
    def is_chat(self) -> bool:
        return bool(self.messages) or self.role is not None

    def conversation(self) -> list[dict[str, str]]:
        """The messages before the model's next one; without roles, all text as the user's.

        Raises `UsageError` for what no list of messages says.
        """
        if not self.is_chat:
            return [{"role": "user", "content": self.text}]
        if self.role not in (None, "assistant"):
            raise UsageError(
                f"a gen stands in a {self.role} message, but a chat model writes assistant "
                "messages only; move it into assistant(...), or use a completions endpoint"
            )
        if self.outside.strip():
            raise UsageError(
                f"the text {shorten(self.outside, 80)!r} stands beside the messages, in none of "
                "them, and a chat endpoint takes messages only; put it into a role"
            )
        return [{"role": role, "content": content} for role, content in self.messages]


def prompt_of(branch: Branch) -> Prompt:
    messages = tuple((message["role"], message["content"]) for message in branch.messages)
    if branch.role is not None:
        begun = branch.text(branch.role_start)
        return Prompt(branch.text(), messages, branch.role, begun, _between(branch, begun))
    if not messages:
        return Prompt(branch.text(), begun=branch.text())
    behind = _behind_last_message(branch.pieces)
    begun = "".join(piece.text for piece in behind)
    own = "".join(piece.text for piece in behind if not piece.written)
    return Prompt(
        branch.text(),
        messages,
        None,
        begun if begun.strip() else "",
        _between(branch, begun) + own,
    )


def _between(branch: Branch, behind: str) -> str:
    """Text that is no template's, in no message and not `behind` the last one: "" if there is
    none, and else the beginning of the branch, where it mostly stands.
    """
    plain = [piece.text for piece in branch.pieces if not piece.special]
    inside = sum(len(message["content"]) for message in branch.messages) + len(behind)
    surplus = sum(map(len, plain)) - inside
    return "".join(plain)[:surplus] if surplus > 0 else ""


def _behind_last_message(pieces: list[Piece]) -> list[Piece]:
    for index in range(len(pieces) - 1, -1, -1):
        if pieces[index].special:
            return pieces[index + 1 :]
    return []
