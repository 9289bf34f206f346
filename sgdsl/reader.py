"""How a program reads what a model wrote.

Owns the waits behind `s["x"]`, `text()` and their like, for the body (a graph break) and for those
who watch a streamed run from outside. Knows nothing of backends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from sgdsl.branch import Branch
from sgdsl.errors import UsageError
from sgdsl.explanation import Explanation
from sgdsl.outcome import Outcome
from sgdsl.recorder import Recorder
from sgdsl.run import Run


class Reader(Protocol):
    """The reads of a state; a trace answers them with names."""

    @property
    def outcome(self) -> Outcome | None: ...

    def defines(self, branch_id: int, name: str | int) -> bool: ...

    def variable(self, branch_id: int, name: str | int) -> Any: ...

    def unread_variable(self, branch_id: int, name: str | int) -> Any: ...

    def meta(self, branch_id: int, name: str) -> Any: ...

    def text(self, branch_id: int) -> Any: ...

    def messages(self, branch_id: int) -> Any: ...

    def chunks(self, branch_id: int, name: str | None) -> Iterator[str]: ...

    def wait(self, branch_id: int) -> None: ...

    def returned(self) -> Any: ...

    def explain(self) -> Explanation: ...


class RunReader:
    """Reads of a run. `inside`: for its body, which has written all that it waits for; others wait
    for the run's end where there is nothing yet: they cannot know what the body will still write.
    """

    __slots__ = ("_inside", "_recorder", "_run")

    def __init__(self, run: Run, recorder: Recorder, *, inside: bool = True) -> None:
        self._run = run
        self._recorder = recorder
        self._inside = inside

    @property
    def outcome(self) -> Outcome | None:
        return self._run.conclude()

    @property
    def _writing(self) -> bool:
        """The reader is the body, and the body goes on: what it wrote is not submitted yet."""
        return self._inside and not self._recorder.closed and self._run.outcome is None

    def defines(self, branch_id: int, name: str | int) -> bool:
        if self._writing:
            return self._recorder.defines(branch_id, name)
        self._run.wait()
        branch = self._run.peek(branch_id)
        return branch is not None and branch.defines(name)

    def variable(self, branch_id: int, name: str | int) -> Any:
        self._submit(branch_id, name)
        return self._run.variable(branch_id, name, until_end=not self._inside)

    def unread_variable(self, branch_id: int, name: str | int) -> Any:
        """As `variable`, for a body that checks it: a typed value stays unread."""
        self._submit(branch_id, name)
        return self._run.unread_variable(branch_id, name)

    def _submit(self, branch_id: int, name: str | int) -> None:
        """What the body wrote is on its way, and the variable is to come of it."""
        if self._writing:
            if not self._recorder.defines(branch_id, name):
                raise UsageError(
                    f"variable {name!r} was read, but this branch defines only "
                    f"{self._recorder.names(branch_id)!r}; read one of these, or generate it first"
                )
            self._recorder.flush()

    def meta(self, branch_id: int, name: str) -> Any:
        self.variable(branch_id, name)
        branch = self._run.peek(branch_id)
        assert branch is not None, "a variable that was read has a branch"
        if name not in branch.metas:
            raise UsageError(
                f"variable {name!r} has no meta info: it was assigned, scoped or joined; "
                f"only gen and select have some, here {sorted(branch.metas)!r}"
            )
        return branch.metas[name]

    def text(self, branch_id: int) -> str:
        return self._settled(branch_id).text()

    def messages(self, branch_id: int) -> list[dict[str, str]]:
        return [dict(message) for message in self._settled(branch_id).messages]

    def wait(self, branch_id: int) -> None:
        """Until all that was written is carried out, or the run has ended."""
        if self._writing:
            self._recorder.flush()
            self._run.wait_until(lambda: self._still(branch_id))
        else:
            self._run.wait()

    def explain(self) -> Explanation:
        if self._writing:
            self._recorder.flush()
        return self._run.explain()

    def returned(self) -> Any:
        if not self._inside:
            self._run.wait()
        if not self._run.returned:
            self._run.raise_error()
            raise UsageError("the return value was read before the body returned; read it after")
        return self._run.value

    def chunks(self, branch_id: int, name: str | None) -> Iterator[str]:
        """The text (of one variable, if named) in the pieces in which it arrives."""
        self._run.streaming = True
        if self._writing:
            self._recorder.flush()
        sent = _Sent()
        chunk, done = "", False

        def arrived() -> bool:
            nonlocal chunk, done
            branch = self._run.peek(branch_id)
            if branch is not None:
                chunk += sent.news(branch) if name is None else sent.news_of(branch, name)
            done = self._done(branch, name)
            return bool(chunk) or done

        while not done:
            self._run.wait_until(arrived)
            if self._run.outcome is not None:  # the wait may have ended without a look
                arrived()
                done = True
            if chunk:
                yield chunk
                chunk = ""
        if name is not None:
            self._run.variable(branch_id, name)  # raises if there is none
        self._run.raise_error()

    def _done(self, branch: Branch | None, name: str | None) -> bool:
        if branch is None:
            return False
        if name is not None and branch.defines(name) and not branch.awaits(name):
            return True
        return self._inside and branch.drained

    def _settled(self, branch_id: int) -> Branch:
        self.wait(branch_id)
        return self._run.settle(branch_id)

    def _still(self, branch_id: int) -> bool:
        branch = self._run.peek(branch_id)
        return branch is not None and branch.drained


class _Sent:
    """How far a stream has been passed on: whole pieces, and characters after them. What has been
    passed on stays so: after a rewind it goes on from there, with what is written now.
    """

    __slots__ = ("chars", "pieces", "rewinds")

    def __init__(self) -> None:
        self.pieces = 0
        self.chars = 0
        self.rewinds = 0

    def _rewind(self, branch: Branch) -> bool:
        """Back to where the branch went back to, if it did."""
        missed = branch.rewinds[self.rewinds :]
        self.rewinds += len(missed)
        if missed and self.pieces >= missed[0]:
            self.pieces, self.chars = missed[0], 0
        return bool(missed)

    def news(self, branch: Branch) -> str:
        self._rewind(branch)
        texts = [piece.text for piece in branch.pieces[self.pieces :]] + [branch.partial]
        text = "".join(texts)[self.chars :]  # those were sent while they were partial
        self.chars = len(branch.partial)
        self.pieces = len(branch.pieces)
        return text

    def news_of(self, branch: Branch, name: str) -> str:
        if self._rewind(branch):
            self.chars = 0
        writing = branch.writes(name)
        text = branch.partial_of(name) if writing else ""
        if not writing and not branch.awaits(name):
            text = branch.texts.get(name, "")
        news = text[self.chars :]
        self.chars += len(news)
        return news
