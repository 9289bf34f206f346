"""`python -m benchmarks [NAME]`: one of those below, extract if none is named."""

import sys

from benchmarks import dtypes, extract, frontend, grammars, scheduler

BENCHMARKS = {
    "dtypes": dtypes.main,
    "extract": extract.main,
    "frontend": frontend.main,
    "grammars": grammars.main,
    "scheduler": scheduler.main,
}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and arguments[0] in BENCHMARKS else "extract"
    BENCHMARKS[name](arguments)
