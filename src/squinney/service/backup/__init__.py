"""Backups of one moment, taken while the site runs, and their restoration into an empty database."""

from squinney.service.backup.contents import BackedUpCollection, Backup, read_backup, require_whole
from squinney.service.backup.restoring import restore
from squinney.service.backup.taking import back_up

__all__ = ["BackedUpCollection", "Backup", "back_up", "read_backup", "require_whole", "restore"]
