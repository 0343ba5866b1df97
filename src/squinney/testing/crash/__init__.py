"""The crash sweep: run an operation, crash it at each of its writes in four ways, and check what remains.

The operation runs in a child process. The child dies before its k-th write is sent, or after that write is done, or it
loses the server's reply to that write and then the connection, or only the reply: then the operation continues after a
network error, and may send the write again. After each crash, recovery runs and the checks follow.
"""

from squinney.testing.crash.sweep import CrashPoint, NotCrashSafe, Sweep, Swept, sweep

__all__ = ["CrashPoint", "NotCrashSafe", "Sweep", "Swept", "sweep"]
