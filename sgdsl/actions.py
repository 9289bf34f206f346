"""What the machine asks of a driver, and what a driver answers.

Owns the vocabulary between the two. Knows nothing of what a node means, nor of how an answer is
made.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

from sgdsl.graph import Gen, Sampling, Select
from sgdsl.pieces import Piece
from sgdsl.record import record


@record
class Append:
    """Nodes that need no model were carried out; `pieces` is empty if they have no text. Even then
    something has moved: a join may wait for just that.
    """

    pieces: tuple[Piece, ...]


@record
class Adopt(Append):
    """The branch goes on from where its child `child` stands, whose text `pieces` is. A driver that
    keeps tokens takes the child's over; for every other it is an `Append`.
    """

    child: int


@record
class Rewind(Append):
    """The branch stands again where its last gen (or its last spawn) began, and `pieces` is empty.
    A driver that keeps tokens goes back to those of that moment; no other has anything to do.
    """


@record
class Spelling:
    """The tokens of a gen's text, so that who goes on from it elsewhere goes on from the same ones.
    `tokenizer`: whose they are; to any other one they mean nothing. `taken`: its first tokens spell
    so many of those before it once more. `residue`: the end of the text, where it is behind them.
    """

    tokenizer: str
    taken: int
    tokens: tuple[int, ...]
    residue: str = ""


@record
class Generate:
    """`sampling` is complete: the node's own, over the run's defaults, plus the role's stops, for
    one completion. Its `seed`, if any, is this completion's own. `begun`: what another driver has
    written of it, for one that can go on from there; its answer is all of the text.
    """

    node: Gen
    sampling: Sampling
    begun: Spelling | None = None


@record
class Choose:
    node: Select


@record
class Spawn:
    """Branches that now exist as copies of the asking one."""

    children: tuple[int, ...]


class Idle(Enum):
    """Nothing to do on this branch: now, or ever again."""

    JOINING = "waits for its children"
    PAUSED = "waits for the program"
    FINISHED = "finished"


Action = Append | Generate | Choose | Spawn | Idle


@record
class Completion:
    """What a driver answers to `Generate`. `truncated`: cut by its token limit before its end."""

    text: str
    meta: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    spelling: Spelling | None = None


@record
class Replay(Append):
    """A gen or a select that is answered already; `pieces` is its text. `completion`: the answer of
    a gen. A driver that keeps tokens does what it does before and behind one of its own.
    """

    completion: Completion | None
