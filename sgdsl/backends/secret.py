"""A key: who may have it, and how it is kept out of all that is shown.

Owns the key, or what makes it, and its removal from texts that somebody else wrote.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NoReturn

from sgdsl.errors import BackendError, told

Key = str | Callable[[], str] | None
"""A key, what makes one (called before each request, on a thread of its own), or none."""

NUM_REMEMBERED = 16
"""Of the keys that were made: an answer may repeat one that has been replaced since."""


class Secret:
    """A key that shows itself to nobody who does not ask for it by name. `also`: other texts that
    are nobody's business, such as headers that hold a key.
    """

    __slots__ = ("_key", "_known")

    def __init__(self, key: Key = None, also: Iterable[str] = ()) -> None:
        self._key = key
        self._known = deque([text for text in also if text], maxlen=NUM_REMEMBERED)
        if isinstance(key, str) and key:
            self._known.append(key)

    async def reveal(self) -> str | None:
        if not callable(self._key):
            return self._key
        try:
            key = await asyncio.to_thread(self._key)
        except Exception as error:
            raise BackendError(f"what makes the key raised {told(error)}") from error
        given: object = key
        if given is not None and not isinstance(given, str):
            raise BackendError(
                f"what makes the key gave a {type(given).__name__}; have it give a str"
            )
        if key and key not in self._known:
            self._known.append(key)
        return key

    def scrub(self, text: str) -> str:
        """`text` without the key, wherever a provider may have repeated it."""
        for known in self._known:
            text = text.replace(known, "***")
        return text

    def scrub_error(self, error: BaseException) -> None:
        """The same for an error's message: also that of one which quotes an answer."""
        said = told(error)
        if self.scrub(said) != said:
            error.args = tuple(
                self.scrub(each) if isinstance(each, str) else each for each in error.args
            )

    def __repr__(self) -> str:
        return "Secret(***)" if self._key else "Secret(None)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled; make the backend where it is used")
