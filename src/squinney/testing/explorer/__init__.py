"""Runs two or three operations at once, on a real server, in every order of the commands that they send.

Each operation has a thread and a client of its own. Its client's listener holds the thread before every command, and a
scheduler decides who goes on. An operation can die before any of its commands. After each schedule the database is
looked at: its state must be one that the operations leave when they run one after the other.
"""

from squinney.testing.explorer.exploration import Explored, Operation, Refuted
from squinney.testing.explorer.explore import GIVES_UP, Explorer

__all__ = ["GIVES_UP", "Explored", "Explorer", "Operation", "Refuted"]
