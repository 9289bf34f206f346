"""What is measured, against what, in one run. `python -m benchmarks` runs the main one."""
