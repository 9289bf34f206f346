"""Jobs: documents in, typed records out, over hours. Torch-free: a job runs on any backend."""
