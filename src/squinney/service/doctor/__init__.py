"""Examines the server, the schema, the jobs and the data, and repairs what it can."""

from squinney.service.doctor.examining import examine
from squinney.service.doctor.finding import Finding
from squinney.service.doctor.repairing import repair

__all__ = ["Finding", "examine", "repair"]
