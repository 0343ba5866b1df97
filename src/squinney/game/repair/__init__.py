"""Find and repair inconsistent data of a world."""

from squinney.game.repair.audit import find_problems, repair

__all__ = ["find_problems", "repair"]
