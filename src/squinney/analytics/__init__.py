"""Systems 1 to 3: the event log, pre-aggregated hits and hierarchical roll-ups."""

from typing import Any

from squinney.analytics.demo import demo
from squinney.analytics.events import queries as log_queries
from squinney.analytics.events.documents import LOG_COLLECTIONS, Event, Import, Reject
from squinney.analytics.events.imports import Imported, Progress
from squinney.analytics.events.log import EventLog, Recorded
from squinney.analytics.events.pages import pack
from squinney.analytics.forgetting import forget
from squinney.analytics.hits import queries as hit_queries
from squinney.analytics.hits.buffered import BufferedHits
from squinney.analytics.hits.documents import HIT_COLLECTIONS
from squinney.analytics.hits.feed import feed_hits
from squinney.analytics.hits.hits import Hits
from squinney.analytics.hits.series import Point
from squinney.analytics.jobs import JOBS
from squinney.analytics.migration import EventsIntoPages
from squinney.analytics.repair import find_problems, repair
from squinney.analytics.reports import queries as report_queries
from squinney.analytics.reports.days import ReportDays
from squinney.analytics.reports.documents import REPORT_COLLECTIONS
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.goals import Conversions, Goals
from squinney.analytics.reports.hosts import Host
from squinney.analytics.reports.ranges import Days
from squinney.analytics.reports.reports import Report, Reports
from squinney.analytics.reports.shares import Shares
from squinney.analytics.reports.sites import ReportSites
from squinney.analytics.retention import Retention
from squinney.analytics.rollups import pipelines
from squinney.analytics.rollups.documents import ROLLUP_COLLECTIONS, Bucket, rollup_collections
from squinney.analytics.rollups.rollups import Ran, Rollups, page_bytes
from squinney.analytics.rollups.verify import verify
from squinney.analytics.shard_advice import Advice, advise_shard_key
from squinney.analytics.visits.documents import VISIT_COLLECTIONS
from squinney.analytics.visits.sessions import Sessions
from squinney.analytics.visits.visitors import VisitorIds
from squinney.mongo.schema import Db
from squinney.system import counts_of
from squinney.transactions import Transactions

COLLECTIONS = [*LOG_COLLECTIONS, *HIT_COLLECTIONS, *ROLLUP_COLLECTIONS, *VISIT_COLLECTIONS, *REPORT_COLLECTIONS]
QUERIES = [*log_queries.QUERIES, *hit_queries.QUERIES, *pipelines.QUERIES, *report_queries.QUERIES]


def build(db: Db, transactions: Transactions | None = None) -> dict[str, Any]:
    """Return the services of this system by name."""
    return {
        "events": EventLog(db),
        "hits": Hits(db),
        "rollups": Rollups(db, key="path", value="bytes", time="time"),
        "page_bytes": page_bytes(db),
        "retention": Retention(db),
        "sessions": Sessions(db),
        "visitor_ids": VisitorIds(db),
        "reports": Reports(db),
        "report_sites": ReportSites(db),
        "goals": Goals(db),
        "shares": Shares(db),
    }


def figures(db: Db) -> dict[str, int]:
    """Return the counts on the home page, estimated from collection metadata, so the amount of data does not matter."""
    counts = counts_of({"imported logs": "analytics.imports"})
    return {"events": EventLog(db).count(), **counts(db)}


__all__ = [
    "COLLECTIONS",
    "JOBS",
    "QUERIES",
    "Advice",
    "Bucket",
    "BufferedHits",
    "Conversions",
    "Days",
    "Event",
    "EventLog",
    "EventsIntoPages",
    "Filters",
    "Goals",
    "Hits",
    "Host",
    "Import",
    "Imported",
    "Point",
    "Progress",
    "Ran",
    "Recorded",
    "Reject",
    "Report",
    "ReportDays",
    "ReportSites",
    "Reports",
    "Retention",
    "Rollups",
    "Sessions",
    "Shares",
    "VisitorIds",
    "advise_shard_key",
    "build",
    "demo",
    "feed_hits",
    "figures",
    "find_problems",
    "forget",
    "pack",
    "page_bytes",
    "repair",
    "rollup_collections",
    "verify",
]
