"""Removals: what a job has to delete, and the time from which it may. Transaction steps, without a database."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any

from squinney.transactions import Step

REMOVALS = "content.removals"
KEEP_FILES_SECONDS = 3600


def old_file_step(file_id: str, now: datetime) -> Step:
    """Return the step that schedules the deletion of an unused file an hour later, so that open readers finish."""
    return removal_step("file", file_id, now + timedelta(seconds=KEEP_FILES_SECONDS))


def removal_step(kind: str, target_id: str, due_at: datetime, **fields: Any) -> Step:
    """Return the step that schedules a removal: what a job deletes, and the time from which it may."""
    removal_id = f"{kind}:{target_id}:{secrets.token_hex(4)}"
    return Step(REMOVALS, removal_id, insert={"kind": kind, "target_id": target_id, "due_at": due_at, **fields})
