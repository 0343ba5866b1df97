"""Load worlds from files: our own YAML or JSON format, and the formats of CircleMUD and its relatives."""

from squinney.game.loading.blueprint import Blueprint, Report, Unread
from squinney.game.loading.files import read_world

__all__ = ["Blueprint", "Report", "Unread", "read_world"]
