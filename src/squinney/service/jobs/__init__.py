"""Runs the periodic jobs of `assembly.jobs()`: one worker at a time each, however many workers there are."""

from squinney.service.jobs.status import JobStatus, statuses
from squinney.service.jobs.worker import Worker

__all__ = ["JobStatus", "Worker", "statuses"]
