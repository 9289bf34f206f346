"""Attention over paged KV, one module per backend."""
