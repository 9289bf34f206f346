"""The `sgdsl` command: one line per fault on stderr, and an exit code that scripts can rely on.

Owns the arguments and the exit codes (0 done, 1 could not be done, 2 asked for wrongly, 130
interrupted). Each subcommand is one function in `_SUBCOMMANDS` that adds its parser and sets `run`.
Must stay quick to import: the heavy modules are imported by the subcommand that needs them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from sgdsl.errors import SgdslError, UsageError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - it has no public name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own); returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except UsageError as error:
        return _fail(error, code=2)
    except SgdslError as error:
        return _fail(error, code=1)
    except KeyboardInterrupt:
        print("sgdsl: interrupted", file=sys.stderr)
        return 130
    return code


def _fail(error: SgdslError, *, code: int) -> int:
    print("sgdsl:", " ".join(str(error).split()), file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sgdsl", description="Structured generation with a local language model."
    )
    parser.add_argument("--version", action="version", version=f"sgdsl {version('sgdsl')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_subcommand in _SUBCOMMANDS:
        add_subcommand(subparsers)
    return parser


def _add_pull(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "pull",
        help="get a model and print its folder",
        description="Get a model, check it, and print its folder. A model that is there is kept. "
        "Checked are the files, the architecture's name and the tokenizer; whether the weights fit "
        "is seen on loading.",
    )
    parser.add_argument(
        "--model",
        default="default",
        metavar="NAME",
        help="'default' (SmolLM2-135M-Instruct), a folder, or a Hugging Face hub id",
    )
    parser.add_argument("--force", action="store_true", help="get it again even if it is there")
    parser.set_defaults(run=_pull)


def _pull(options: argparse.Namespace) -> int:
    from runtime.models import resolve_model

    folder = resolve_model(options.model, refresh=options.force, verify=True)
    # Only now: it brings torch, and a name that is wrong is said at once.
    from runtime.model.load import check_loadable

    check_loadable(folder)
    print(folder)
    return 0


def _add_check_schema(subparsers: Subparsers) -> None:
    from runtime.check_schema import add_arguments, run

    parser = subparsers.add_parser(
        "check-schema",
        help="say what a JSON Schema, a pattern, a grammar or a type comes to",
        description="Say whether a constraint is supported and what it comes to: every place that "
        "is refused, what says nothing, lengths, costs, samples. Exit code 0: supported, "
        "1: refused or unsatisfiable, 2: asked for wrongly.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def _add_serve(subparsers: Subparsers) -> None:
    from runtime.server.serve import add_arguments, run

    parser = subparsers.add_parser(
        "serve",
        help="serve a model to other processes",
        description="Serve a model: sgdsl.RuntimeEndpoint(URL) runs programs on it. The key of the "
        "server is taken from the environment, SGDSL_API_KEY.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def _add_extract(subparsers: Subparsers) -> None:
    from runtime.jobs.command import add_arguments, run

    parser = subparsers.add_parser(
        "extract",
        help="read records out of documents, any number of them",
        description="Read a record out of every row of INPUT. Each row's outcome is written to a "
        "journal beside the output as soon as it has ended: run the same command again to go on "
        "where it was stopped or killed. Ctrl-C once lets the rows in flight end.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


_SUBCOMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    _add_pull,
    _add_check_schema,
    _add_serve,
    _add_extract,
)
