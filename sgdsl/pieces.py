"""Stretches of a branch's text. Owns what is said of each: who wrote it, and what it counts as."""

from __future__ import annotations

from sgdsl.record import record


@record
class Piece:
    """A stretch of a branch's text. `special`: special tokens in it are special (template text).
    `written`: a model wrote it. `aside`: inside of a message, but no part of its content.
    """

    text: str
    special: bool = False
    written: bool = False
    aside: bool = False
