"""`sgdsl check-schema`: from a file, a pattern or a type to what `grammars.explain` tells of it.

Owns the options of the command and which of them go together; how the answer is shown is the
business of `runtime.schema_report`. Must stay quick to import: see `runtime.cli`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.named_objects import load_object
from sgdsl.errors import UsageError

if TYPE_CHECKING:
    from grammars import Constraint, Explanation, Vocabulary

_SCHEMA_OPTIONS = (
    "whitespace",
    "max_whitespace",
    "property_order",
    "extra_properties",
    "ascii_only",
    "formats",
    "resources",
)
"""The arguments of `grammars.JsonSchema`, under the same names."""

_TYPE_OPTIONS = frozenset({"whitespace", "max_whitespace", "property_order", "ascii_only"})
"""Those that `grammars.TypeOf` has, too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", nargs="?", help="a JSON Schema; '-' reads it from stdin")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--regex", metavar="PATTERN", help="a regular expression")
    what.add_argument("--grammar", metavar="FILE", help="a context-free grammar; '-' for stdin")
    what.add_argument("--type", metavar="MODULE:NAME", help="a Python type")
    _add_schema_options(parser.add_argument_group("how values are written (JSON Schemas, types)"))
    shown = parser.add_argument_group("what is shown")
    form = shown.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything as one JSON object")
    form.add_argument("--dot", action="store_true", help="the automaton alone, for Graphviz")
    form.add_argument("--mermaid", action="store_true", help="the automaton alone, for Mermaid")
    shown.add_argument("--samples", type=_count, default=5, metavar="N", help="texts (default: 5)")
    shown.add_argument("--seed", type=int, default=0, metavar="N", help="of the samples")
    shown.add_argument(
        "--max-states", type=_count, default=64, metavar="N", help="of a drawing (default: 64)"
    )
    model = parser.add_mutually_exclusive_group()
    model.add_argument(
        "--model",
        metavar="NAME",
        help="count tokens of this model: 'default', a folder, or a hub id (otherwise those of the "
        "default model, if it is there)",
    )
    model.add_argument("--no-model", action="store_true", help="count bytes alone")


def _add_schema_options(group: Any) -> None:
    group.add_argument("--whitespace", choices=["compact", "single", "flexible"])
    group.add_argument("--max-whitespace", type=_count, metavar="N")
    group.add_argument("--property-order", choices=["declared", "any"])
    group.add_argument("--extra-properties", action=argparse.BooleanOptionalAction)
    group.add_argument("--ascii-only", action="store_true", default=None)
    group.add_argument("--formats", choices=["enforce", "ignore"])
    group.add_argument(
        "--resource",
        action="append",
        dest="resources",
        metavar="URI=FILE",
        help="another schema that this one refers to; may be repeated",
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(options: argparse.Namespace) -> int:
    """Explains what was asked for; returns the exit code."""
    explanation = _explain(options)
    from runtime import schema_report

    if options.dot or options.mermaid:
        schema_report.write_diagram(
            explanation, is_mermaid=options.mermaid, max_states=options.max_states
        )
    elif options.json:
        schema_report.write_json(explanation)
    else:
        schema_report.write_text(explanation, _title(options))
    return 0 if explanation.is_supported else 1


def _explain(options: argparse.Namespace) -> Explanation:
    from grammars import GrammarError, explain
    from grammars.explanation import refusal

    make = _maker(options)
    try:
        constraint = make()
    except GrammarError as error:
        return refusal(error)
    vocabulary = _vocabulary(options)
    return explain(constraint, vocabulary, num_samples=options.samples, seed=options.seed)


def _title(options: argparse.Namespace) -> str:
    title: str = options.regex or options.grammar or options.type or options.file
    return "stdin" if title == "-" else title


# -- the constraint --------------------------------------------------------------------------------


def _maker(options: argparse.Namespace) -> Callable[[], Constraint]:
    """What makes the constraint. Raises UsageError for what is not there, or not together."""
    import grammars

    others = [options.regex, options.grammar, options.type]
    if (options.file is None) == all(other is None for other in others):
        raise UsageError("give one of FILE, --regex, --grammar and --type")
    given = {n: v for n in _SCHEMA_OPTIONS if (v := getattr(options, n)) is not None}
    if options.file is not None:
        text = _read(options.file)
        if "resources" in given:
            given["resources"] = dict(map(_resource, given["resources"]))
        return lambda: grammars.JsonSchema(text, **given)
    allowed = _TYPE_OPTIONS if options.type is not None else frozenset()
    wrong = sorted(given.keys() - allowed)
    if wrong:
        option = wrong[0].replace("resources", "resource").replace("_", "-")
        kinds = "a FILE or --type" if wrong[0] in _TYPE_OPTIONS else "a FILE only"
        raise UsageError(f"--{option} goes with {kinds}; leave it out")
    if options.regex is not None:
        return lambda: grammars.Regex(options.regex)
    if options.type is not None:
        tp = load_object(options.type, "--type")
        return lambda: grammars.TypeOf(tp, **given)
    text = _read(options.grammar)
    return lambda: grammars.Cfg(text)


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"{file!r} cannot be read: {reason}") from None


def _resource(given: str) -> tuple[str, str]:
    uri, sign, file = given.partition("=")
    if not (uri and sign and file):
        raise UsageError(f"--resource {given!r} is not of the form URI=FILE")
    return uri, _read(file)


# -- the vocabulary --------------------------------------------------------------------------------


def _vocabulary(options: argparse.Namespace) -> Vocabulary | None:
    """The tokens of the model that was asked for, or of the default one if it is there."""
    from runtime.models import default_model_if_present, resolve_model

    if options.no_model:
        return None
    folder = resolve_model(options.model) if options.model else default_model_if_present()
    if folder is None:
        return None
    from runtime.model.load import load_tokenizer_alone

    return load_tokenizer_alone(folder).vocabulary
