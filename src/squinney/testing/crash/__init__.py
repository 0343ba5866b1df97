"""The crash sweep: an operation dies at each of its writes, in three ways, and its promises are checked.

The operation runs in a process of its own, which ends before its k-th write is sent, after it was done, or loses the
server's reply to it and with that the server. Then what mends is run, and what must hold is checked.
"""

from squinney.testing.crash.sweep import CrashPoint, NotCrashSafe, Swept, sweep

__all__ = ["CrashPoint", "NotCrashSafe", "Swept", "sweep"]
