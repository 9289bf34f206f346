"""How long a test waits before it calls something hung.

Such ends take some milliseconds, and 2 seconds are promised; a shared machine may stand still for
longer than that, and a hang lasts for ever.
"""

PATIENCE_S = 10
