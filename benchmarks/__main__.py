"""`python -m benchmarks [NAME]`: a workload or another measurement by its name; extract if none."""

import sys
from collections.abc import Callable
from functools import partial

from runtime.threads import share_the_cores

share_the_cores()  # torch asks when it is imported, and it is by these

from benchmarks import command, dtypes, frontend, grammars, plot, simulate  # noqa: E402
from benchmarks.workloads import WORKLOADS  # noqa: E402

Command = Callable[[list[str]], int | None]

BENCHMARKS: dict[str, Command] = {
    **{name: partial(command.main, workload) for name, workload in WORKLOADS.items()},
    "dtypes": dtypes.main,
    "frontend": frontend.main,
    "grammars": grammars.main,
    "plot": plot.main,
    "simulate": simulate.main,
}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and arguments[0] in BENCHMARKS else "extract"
    sys.exit(BENCHMARKS[name](arguments))
