"""Systems 1 to 3: the event log, pre-aggregated hits and hierarchical roll-ups."""

from squinney.analytics.documents import LOG_COLLECTIONS, Event, Import, Reject
from squinney.analytics.events import EventLog, Recorded
from squinney.analytics.imports import Imported, Progress

COLLECTIONS = LOG_COLLECTIONS

__all__ = ["COLLECTIONS", "Event", "EventLog", "Import", "Imported", "Progress", "Recorded", "Reject"]
