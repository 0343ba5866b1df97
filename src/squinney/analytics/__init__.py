"""Systems 1 to 3: the event log, pre-aggregated hits and hierarchical roll-ups."""

from squinney.analytics.buffered import BufferedHits
from squinney.analytics.documents import HIT_COLLECTIONS, LOG_COLLECTIONS, Event, Import, Reject
from squinney.analytics.events import EventLog, Recorded
from squinney.analytics.feed import feed_hits
from squinney.analytics.hits import Hits
from squinney.analytics.imports import Imported, Progress
from squinney.analytics.queries import HIT_QUERIES, LOG_QUERIES
from squinney.analytics.series import Point

COLLECTIONS = [*LOG_COLLECTIONS, *HIT_COLLECTIONS]
QUERIES = [*LOG_QUERIES, *HIT_QUERIES]

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "BufferedHits",
    "Event",
    "EventLog",
    "Hits",
    "Import",
    "Imported",
    "Point",
    "Progress",
    "Recorded",
    "Reject",
    "feed_hits",
]
