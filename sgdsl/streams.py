"""What of a branch's text has arrived and was not passed on yet.

Owns how far a stream is, whoever waits for it and however. Knows nothing of waiting.
"""

from __future__ import annotations

from typing import Any

from sgdsl.branch import Branch
from sgdsl.run import Run

UNFINISHED: dict[str, Any] = {"finish_reason": None}
"""What is known of a variable that is still being written."""


class Stream:
    """The text of a branch, or that of one variable of it. `inside`: read by the body, which writes
    no more while it waits.
    """

    __slots__ = (
        "_branch_id",
        "_chars",
        "_inside",
        "_name",
        "_pieces",
        "_rewinds",
        "_run",
        "chunk",
        "done",
        "meta",
    )

    def __init__(self, run: Run, branch_id: int, name: str | None, *, inside: bool) -> None:
        self._run = run
        self._branch_id = branch_id
        self._name = name
        self._inside = inside
        self._pieces = 0  # passed on as a whole
        self._chars = 0  # passed on of what comes after them
        self._rewinds = 0  # seen
        self.chunk = ""
        self.done = False
        self.meta: dict[str, Any] | None = None
        """The meta info of the variable, once all of its text has arrived."""

    def arrived(self) -> bool:
        """Whether there is something to pass on, or the end. Called under the run's lock, and once
        more after its end.
        """
        branch = self._run.peek(self._branch_id)
        if branch is not None:
            self.chunk += self._news(branch) if self._name is None else self._news_of(branch)
            self.done = self._is_done(branch)
            if self.done and self._name in branch.variables:
                self.meta = branch.variables[self._name].meta or {}
        return bool(self.chunk) or self.done

    def take(self) -> str:
        """What has arrived since the last time."""
        if self._run.outcome is not None:  # the wait may have ended without a look
            self._run.look(self.arrived)
            self.done = True
        chunk, self.chunk = self.chunk, ""
        return chunk

    def _is_done(self, branch: Branch) -> bool:
        name = self._name
        if name is not None and branch.defines(name) and not branch.awaits(name):
            return True
        return self._inside and branch.drained

    def _news(self, branch: Branch) -> str:
        self._rewind(branch)
        texts = [piece.text for piece in branch.pieces[self._pieces :]] + [branch.partial]
        text = "".join(texts)[self._chars :]  # those were passed on while they were partial
        self._chars = len(branch.partial)
        self._pieces = len(branch.pieces)
        return text

    def _rewind(self, branch: Branch) -> bool:
        """Back to where the branch went back to, if it did. What has been passed on stays so: it
        goes on from there, with what is written now.
        """
        missed = branch.rewinds[self._rewinds :]
        self._rewinds += len(missed)
        if missed and self._pieces >= missed[0]:
            self._pieces, self._chars = missed[0], 0
        return bool(missed)

    def _news_of(self, branch: Branch) -> str:
        assert self._name is not None, "the stream of a variable has its name"
        if self._rewind(branch):
            self._chars = 0
        writing = branch.writes(self._name)
        text = branch.partial_of(self._name) if writing else ""
        if not writing and not branch.awaits(self._name):
            found = branch.variables.get(self._name)
            text = "" if found is None else found.text
        news = text[self._chars :]
        self._chars += len(news)
        return news
