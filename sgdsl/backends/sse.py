"""Server-sent events: bytes in, the data of events out.

Owns the framing, as in the HTML standard (section 9.2.6), for UTF-8 that may be cut anywhere; what
is no UTF-8 is refused, where a browser would show question marks. Sans-I/O; knows nothing of what
the data means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_EVENT_BYTES = 64 << 20
"""An event is at most a whole completion; one without an end must not fill the memory."""

_END = re.compile(rb"[\r\n]")


class EventError(ValueError):
    """What came is no event, as a clause."""


class EventReader:
    """Lines end with LF, CR LF or CR; an empty one ends the event. Other fields than `data` and
    comments are passed over.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0
        """How much of what is pending has no end of a line."""
        self._data: list[str] = []
        self._num_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of the events that are complete now. Raises `EventError`."""
        self._pending += chunk
        self._num_bytes += len(chunk)
        if self._num_bytes > MAX_EVENT_BYTES:
            raise EventError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        start = 0
        while (found := self._line(start)) is not None:
            line, start = found
            if line:
                self._take(line)
                continue
            self._num_bytes = len(self._pending) - start
            if self._data:
                data, self._data = "\n".join(self._data), []
                yield data
        del self._pending[:start]

    def _line(self, start: int) -> tuple[bytes, int] | None:
        """The line that begins at `start`, and where the next one does; None: it has no end yet."""
        end = _END.search(self._pending, max(start, self._searched))
        if end is None:
            self._searched = len(self._pending) - start
            return None
        behind = end.end()
        if end[0] == b"\r":
            if behind == len(self._pending):  # an LF may follow
                self._searched = end.start() - start
                return None
            behind += self._pending[behind : behind + 1] == b"\n"
        self._searched = 0
        return bytes(self._pending[start : end.start()]), behind

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name != b"data":
            return
        try:
            self._data.append(value.removeprefix(b" ").decode())
        except UnicodeDecodeError as error:
            raise EventError(f"what is no UTF-8: {error.object[error.start :][:8]!r}") from None
