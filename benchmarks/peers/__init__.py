"""Other engines, each run by the Python of its own environment; see `protocol` for how."""
