"""Worlds from files: our own YAML or JSON, and the files of CircleMUD and its kin."""

from squinney.game.loading.blueprint import Blueprint, Report, Unread
from squinney.game.loading.files import read_world

__all__ = ["Blueprint", "Report", "Unread", "read_world"]
