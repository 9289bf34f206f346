"""`sgdsl serve`: a model behind the server's doors, on this machine's loopback unless told
otherwise.

Owns the command's options and what of them is refused. The doors are in `programs`.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.cache.eviction import EVICTIONS
from runtime.config import DTYPES, KV_DTYPES, SPECULATION
from runtime.policies import POLICIES
from sgdsl.errors import UsageError

DEFAULT_PORT = 30_000
KEY_VARIABLE = "SGDSL_API_KEY"

MAX_WAITING, MAX_WAITING_TOKENS = 10_000, 10_000_000
"""Of a server: as tokens and as text, the latter take about half a gigabyte."""

RUNTIME_OPTIONS = (
    *("device", "dtype", "kv_dtype", "tensor_parallel", "batch_invariant", "speculation"),
    *("kv_bytes", "host_kv_bytes", "max_running", "token_budget", "context_len", "chat_template"),
    *("policy", "eviction", "prefix_file", "max_waiting", "max_waiting_tokens"),
)
"""What is the runtime's own: argparse's names are its names."""

UNITS = ("", "KiB", "MiB", "GiB")
SIZE = re.compile(r"(\d{1,18})(KiB|MiB|GiB)?", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        default="default",
        metavar="NAME",
        help="'default' (SmolLM2-135M-Instruct), a folder, or a Hugging Face hub id",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="auto",
        help="the type of the weights; auto is float32 (on a GPU bfloat16), int8 loses a little",
    )
    parser.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1, ...; auto is a GPU where there is one"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"{DEFAULT_PORT}; 0: a free one"
    )
    parser.add_argument(
        "--allow-insecure",
        action="store_true",
        help=f"listen on other addresses than the loopback without a key in {KEY_VARIABLE}",
    )
    _add_sizes(parser)
    _add_computing(parser)
    parser.add_argument(
        "--policy",
        default="lpm",
        choices=sorted(POLICIES),
        help="in which order those that wait are computed",
    )
    parser.add_argument(
        "--eviction",
        default="lfu",
        choices=sorted(EVICTIONS),
        help="which cached prefixes make room first",
    )
    parser.add_argument(
        "--prefix-file",
        metavar="PATH",
        help="keep cached prefixes there for the next start",
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=MAX_WAITING,
        metavar="N",
        help=f"refuse runs while so many sequences wait; {MAX_WAITING:,}",
    )
    parser.add_argument(
        "--max-waiting-tokens",
        type=int,
        default=MAX_WAITING_TOKENS,
        metavar="N",
        help=f"refuse runs while so many tokens wait; {MAX_WAITING_TOKENS:,}",
    )


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    """What follows from the memory and the model where it is not given."""
    parser.add_argument(
        "--kv-bytes",
        type=num_bytes,
        metavar="SIZE",
        help="memory for keys and values: a number of bytes, or 512MiB, 8GiB",
    )
    parser.add_argument(
        "--host-kv-bytes",
        type=num_bytes,
        metavar="SIZE",
        help="host memory for cached prefixes that have to leave the former",
    )
    parser.add_argument("--max-running", type=int, metavar="N", help="sequences in a step, at most")
    parser.add_argument("--token-budget", type=int, metavar="N", help="tokens in a step, at most")
    parser.add_argument(
        "--context-len", type=int, metavar="N", help="tokens of a prompt and its output, at most"
    )


def _add_computing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kv-dtype",
        choices=KV_DTYPES,
        default="auto",
        help="the type of keys and values; auto is that of the weights",
    )
    parser.add_argument(
        "--tensor-parallel",
        type=int,
        default=1,
        metavar="N",
        help="processes (on GPUs: devices) that compute the model together",
    )
    parser.add_argument(
        "--batch-invariant",
        action="store_true",
        help="every bit of an output is the same in any batch; slower",
    )
    parser.add_argument(
        "--speculation",
        choices=SPECULATION,
        default="auto",
        help="whether tokens are guessed and tried along; auto: where it pays",
    )
    parser.add_argument(
        "--chat-template",
        metavar="NAME",
        help="a template of sgdsl's own instead of the model's: chatml, llama-3-instruct, ...",
    )


def num_bytes(text: str) -> int:
    """A number of bytes, or of a unit of them."""
    found = SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size; it is a number of bytes, or of KiB, MiB or GiB, as in 8GiB"
        )
    return int(found[1]) << 10 * UNITS.index(found[2] or "")


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    api_key = os.environ.get(KEY_VARIABLE) or None
    check(options.host, options.port, api_key=api_key, insecure=options.allow_insecure)

    import uvicorn

    from runtime.local import Runtime
    from runtime.server.programs import make_app

    chosen = {name: getattr(options, name) for name in RUNTIME_OPTIONS}
    with _closed_on_sigterm(), Runtime(options.model, **chosen) as runtime:
        sys.stderr.write(runtime.summary + "\n")
        app = make_app(runtime, model=runtime.folder.name, api_key=api_key)
        config = uvicorn.Config(app, host=options.host, port=options.port, log_level="info")
        server = uvicorn.Server(config)
        server.run()
    return 0 if server.started else 1


@contextmanager
def _closed_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the process after the block has been left, not within it: uvicorn raises it
    again as soon as the server has ended.
    """
    came = False

    def leave(*_: object) -> None:
        nonlocal came
        came = True
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came:
            signal.raise_signal(signal.SIGTERM)


def check(host: str, port: int, *, api_key: str | None, insecure: bool) -> None:
    """Raises `UsageError` for an address that anybody could use the model from."""
    if not 0 <= port <= 65_535:
        raise UsageError(f"--port {port} is not allowed; it is a number from 0 to 65535")
    if api_key is None and not insecure and not _is_loopback(host):
        raise UsageError(
            f"--host {host} can be reached from other machines, and there is no key; put one into "
            f"{KEY_VARIABLE}, or say --allow-insecure"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
