"""`python -m benchmarks [dtypes | extract | frontend | grammars]`: one of them, extract if none."""

import sys

from benchmarks import dtypes, extract, frontend, grammars

BENCHMARKS = {
    "dtypes": dtypes.main,
    "extract": extract.main,
    "frontend": frontend.main,
    "grammars": grammars.main,
}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and arguments[0] in BENCHMARKS else "extract"
    BENCHMARKS[name](arguments)
