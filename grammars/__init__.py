"""Constraints on generated text: regexes, JSON Schema and grammars, compiled to token masks."""
