"""The explorer: run two or three operations concurrently, on a real server, in every order of their commands.

Each operation has its own thread and client. A command listener holds the thread before every command, and a scheduler
decides which thread continues. An operation can die before any of its commands, or lose the reply to any of its
writes. After each schedule the state of the
database must be one that the operations also leave when they run one after the other.
"""

from squinney.testing.explorer.explorer import GIVES_UP, Explorer
from squinney.testing.explorer.operations import Operation
from squinney.testing.explorer.results import Explored, Refuted

__all__ = ["GIVES_UP", "Explored", "Explorer", "Operation", "Refuted"]
