"""Context-free grammars as constraints. Owns the constraint; the parts are in the `cfg_` modules.

`cfg_parser` says how a grammar is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from grammars.algebra import Algebra
from grammars.budget import At
from grammars.cfg_lowering import Lowering
from grammars.cfg_parser import parse
from grammars.cfg_scanner import place
from grammars.constraint import Constraint
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr


@dataclass(frozen=True)
class Cfg(Constraint):
    """The texts that a grammar derives from `start`; see `cfg_parser` for its notation.

    Any context-free grammar is taken: left-recursive, ambiguous, with empty rules. Raises
    GrammarError with the line and column (`position`: the offset) when `text` is malformed,
    UnsupportedError when it has what is not supported. The compile raises EmptyLanguageError when
    `start` derives no text, CompileBudgetError when the grammar is too large.
    """

    text: str
    start: str = "start"

    def __post_init__(self) -> None:
        for name, value in (("text", self.text), ("start", self.start)):
            if not isinstance(value, str):
                raise GrammarError(f"Cfg got {name}={value!r:.80}; give a str")
        if self.start not in parse(self.text).definitions:
            raise GrammarError(
                f"the grammar does not define start={self.start!r:.80}; define it, or give the "
                "name of the rule that the text is"
            )

    def _at(self, offset: int) -> At:
        return At(offset, f"at {place(self.text, offset)} of the grammar")

    def lower(self, algebra: Algebra) -> Expr:
        tree = parse(self.text)
        lowering = Lowering(algebra, tree, self.start)
        algebra.budget.columns = self._at
        made = lowering.whole()
        algebra.budget.columns = None
        if made is algebra.empty:
            offset = tree.definitions[self.start].offset
            raise EmptyLanguageError(
                f"{self.start!r}, defined at {place(self.text, offset)} of the grammar, derives no "
                "text; every way through it needs itself, or what the vocabulary cannot write",
                offset,
            )
        return made
