"""Of `runtime.jobs`."""
