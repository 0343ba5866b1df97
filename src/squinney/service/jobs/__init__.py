"""Runs the periodic jobs of `assembly.jobs()`. Of any number of workers, one at a time runs each job."""

from squinney.service.jobs.status import JobStatus, statuses
from squinney.service.jobs.worker import JobWorker

__all__ = ["JobStatus", "JobWorker", "statuses"]
