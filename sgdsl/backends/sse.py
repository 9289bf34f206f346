"""Server-sent events: bytes in, the data of events out.

Owns the framing, as in the HTML standard (section 9.2.6), for UTF-8 that may be cut anywhere.
Sans-I/O; knows nothing of what the data means.
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_EVENT_BYTES = 64 << 20
"""An event is at most a whole completion; one without an end must not fill the memory."""


class EventTooLongError(ValueError):
    """An event did not end in time."""


class EventReader:
    """Lines end with LF, CR LF or CR; an empty one ends the event. Other fields than `data` and
    comments are passed over.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._data: list[str] = []
        self._num_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of the events that are complete now."""
        self._pending += chunk
        self._num_bytes += len(chunk)
        if self._num_bytes > MAX_EVENT_BYTES:
            raise EventTooLongError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        while (line := self._line()) is not None:
            if line:
                self._take(line)
            elif self._data:
                data, self._data = "\n".join(self._data), []
                self._num_bytes = len(self._pending)
                yield data

    def _line(self) -> bytes | None:
        ends = [at for at in (self._pending.find(b"\n"), self._pending.find(b"\r")) if at >= 0]
        if not ends:
            return None
        end = min(ends)
        behind = end + 1
        if self._pending[end : end + 1] == b"\r":
            if behind == len(self._pending):  # an LF may follow
                return None
            behind += self._pending[behind : behind + 1] == b"\n"
        line = bytes(self._pending[:end])
        del self._pending[:behind]
        return line

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", errors="replace"))
