"""Runs the periodic jobs of `assembly.jobs()`: one worker at a time each, however many workers there are."""

from squinney.jobs.status import JobStatus, statuses
from squinney.jobs.worker import Worker

__all__ = ["JobStatus", "Worker", "statuses"]
