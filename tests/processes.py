"""Asking after processes."""

from __future__ import annotations

import psutil


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but not been buried yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
