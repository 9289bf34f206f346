"""The HTTP server: the doors through which other machines use a backend."""
