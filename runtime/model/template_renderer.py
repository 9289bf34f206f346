"""The process that renders a chat template: a script that is killed when it takes too much.

A template is a program of whoever made the model. It runs in jinja2's sandbox, with the functions
that transformers gives to templates, in a process of its own with a bound on time and memory. Reads
one JSON request from its input, writes one JSON answer. Imports nothing of this project.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.utils
from jinja2.sandbox import ImmutableSandboxedEnvironment


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}` marks what a model wrote; here it is just text."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own form

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TooLongError(Exception):
    """A conversation became more text than is asked for."""


class TemplateDict:
    """`dict(...)` for templates, without the class and what hangs on it."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    """`namespace(...)` without names that begin with an underscore."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}")
        super().__setitem__(name, value)


def raise_exception(message: str) -> NoReturn:
    """What templates call for a conversation that they do not take."""
    raise jinja2.exceptions.TemplateError(message)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is; jinja2's own filter escapes for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def strftime_now(form: str) -> str:
    """Today's date, in the machine's time zone, as templates expect it."""
    return datetime.now().strftime(form)  # noqa: DTZ005


def environment() -> ImmutableSandboxedEnvironment:
    """The environment in which transformers renders chat templates."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": strftime_now,
        "dict": TemplateDict(),
        "namespace": TemplateNamespace,
    }
    return made


def render_all(request: dict[str, Any]) -> list[tuple[bool, str]]:
    """For each conversation whether it could be rendered, and its text or the error."""
    template = environment().from_string(request["source"])
    answers = []
    for messages, generate in request["conversations"]:
        try:
            text = template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=generate,
                **request["variables"],
            )
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a template is a program, and fails like one
            answers.append((False, f"{type(error).__name__}: {error}"[:200]))
            continue
        if len(text) > request["max_characters"]:
            raise TooLongError
        answers.append((True, text))
    return answers


def limit(*, seconds: int, num_bytes: int) -> None:
    """Bounds for what follows, where the system has them; the parent's patience is the last one."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    for kind, amount in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, num_bytes)):
        try:
            resource.setrlimit(kind, (amount, amount))
        except (OSError, ValueError):  # not a limit of this system
            continue


def main() -> None:
    request = json.load(sys.stdin)
    limit(seconds=request["max_seconds"], num_bytes=request["max_bytes"])
    answer: dict[str, Any]
    try:
        answer = {"answers": render_all(request)}
    except MemoryError:
        answer = {"fault": "memory"}
    except TooLongError:
        answer = {"fault": "length"}
    except Exception as error:  # noqa: BLE001 - it does not even compile
        answer = {"fault": f"{type(error).__name__}: {error}"[:200]}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
