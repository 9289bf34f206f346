"""Constraints on text, compiled to token masks that always leave a way to finish.

Say what is asked (`Regex`, `JsonSchema`, `Choices`, `TypeOf`), compile it for a tokenizer's
`Vocabulary`, and follow each sequence with a `Matcher`:

    grammar = Compiler(vocabulary).compile(JsonSchema({"type": "integer"}))
    matcher = Matcher(grammar, max_tokens=8)
    matcher.fill_bitmask(row)      # which tokens are allowed next
    matcher.accept_token(token_id)

It needs numpy (and pydantic for types), and knows nothing of models, devices or programs.
"""

from grammars.batch import fill_bitmasks
from grammars.cfg import Cfg
from grammars.compiler import Compiler, accepts, token_accepts
from grammars.compose import Alternation, Concatenation, Repetition
from grammars.constraint import Choices, Constraint, JsonSchema, Regex
from grammars.errors import (
    CompileBudgetError,
    EmptyLanguageError,
    GrammarError,
    UnsupportedError,
)
from grammars.explanation import Explanation, explain
from grammars.grammar import Grammar
from grammars.matcher import Matcher
from grammars.substring import Substring
from grammars.tags import StructuralTags, Tag
from grammars.token_table import TokenTable
from grammars.types import TypeOf
from grammars.vocabulary import Vocabulary

__all__ = [
    "Alternation",
    "Cfg",
    "Choices",
    "CompileBudgetError",
    "Compiler",
    "Concatenation",
    "Constraint",
    "EmptyLanguageError",
    "Explanation",
    "Grammar",
    "GrammarError",
    "JsonSchema",
    "Matcher",
    "Regex",
    "Repetition",
    "StructuralTags",
    "Substring",
    "Tag",
    "TokenTable",
    "TypeOf",
    "UnsupportedError",
    "Vocabulary",
    "accepts",
    "explain",
    "fill_bitmasks",
    "token_accepts",
]
