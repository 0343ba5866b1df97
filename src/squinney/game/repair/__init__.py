"""What can be wrong in a world, found and mended."""

from squinney.game.repair.audit import find_problems, repair

__all__ = ["find_problems", "repair"]
