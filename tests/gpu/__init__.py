"""What only an NVIDIA GPU can show: `python -m pytest -m gpu`. None of it has ever been run."""
