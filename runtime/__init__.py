"""The runtime that executes sgdsl programs on a local model."""
