"""`python -m benchmarks`: the extraction benchmark, with its arguments."""

from benchmarks.extract import main

if __name__ == "__main__":
    main()
