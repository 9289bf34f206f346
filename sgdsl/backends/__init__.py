"""Where graphs are executed: the protocol, and the backends that need no engine of ours."""
