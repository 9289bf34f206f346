"""`python -m benchmarks [extract | frontend | grammars]`: one benchmark; extract if none."""

import sys

from benchmarks import extract, frontend, grammars

BENCHMARKS = {"extract": extract.main, "frontend": frontend.main, "grammars": grammars.main}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and arguments[0] in BENCHMARKS else "extract"
    BENCHMARKS[name](arguments)
