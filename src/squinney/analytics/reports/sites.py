"""The settings of a site's reports: its time zone and its own hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from squinney import checks
from squinney.analytics.calendar import EARLIEST, LATEST, zone
from squinney.analytics.reports import queries
from squinney.analytics.reports.documents import SITES, SiteSettings
from squinney.analytics.reports.visit_sources import host_of
from squinney.analytics.rules import MAX_SITE_LENGTH
from squinney.clock import Clock, utcnow
from squinney.errors import Conflict, Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db

MAX_HOSTS = 100
DEFAULTS = {"time_zone": "UTC", "own_hosts": [], "is_private": False, "stale": False, "version": 0}


class ReportSites:
    """How sites are reported. A change makes the next `ReportDays.update` compute all days of the site again."""

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock

    @operation(reads_only=True)
    def settings(self, site: str) -> SiteSettings:
        """Return the settings of a site; without any, its days begin in UTC."""
        stored = self._db[SITES].find_one({"_id": site})
        return cast(SiteSettings, {**DEFAULTS, "_id": site, **(stored or {})})

    @operation()
    def change(
        self, site: str, *, time_zone: str | None = None, own_hosts: Sequence[str] | None = None
    ) -> SiteSettings:
        """Set the time zone in which days begin, or the hosts that are no sources: the site's own name is never one.

        Raises: `Invalid`; `Conflict` for another time zone if days of the site cannot be computed in it, because events
        of them were deleted.
        """
        checks.text(site, "site", max_length=MAX_SITE_LENGTH)
        changed: dict[str, Any] = {}
        if time_zone is not None:
            changed["time_zone"] = zone(time_zone).key
            self._require_events(site, zone(time_zone).key)
        if own_hosts is not None:
            changed["own_hosts"] = _hosts(own_hosts)
        update: dict[str, Any] = {
            "$set": {**changed, "updated_at": self._clock(), "stale": True},
            "$inc": {"version": 1},
            "$setOnInsert": {name: DEFAULTS[name] for name in ("time_zone", "own_hosts") if name not in changed},
        }
        settings: Any = self._db[SITES].find_one_and_update({"_id": site}, update, upsert=True, return_document=True)
        return cast(SiteSettings, settings)

    @operation()
    def set_private(self, site: str, is_private: bool) -> SiteSettings:
        """Show the reports of a site on pages to editors only, or to everybody again.

        Raises: `Invalid`.
        """
        checks.text(site, "site", max_length=MAX_SITE_LENGTH)
        update: dict[str, Any] = {
            "$set": {"is_private": bool(is_private), "updated_at": self._clock()},
            "$setOnInsert": {name: value for name, value in DEFAULTS.items() if name != "is_private"},
        }
        settings: Any = self._db[SITES].find_one_and_update({"_id": site}, update, upsert=True, return_document=True)
        return cast(SiteSettings, settings)

    def _require_events(self, site: str, new_zone: str) -> None:
        """Refuse another time zone where the oldest day cannot be computed again."""
        old_zone, now = self.settings(site)["time_zone"], self._clock()
        days: dict[str, Any] = {"site": site, "zone": old_zone, "first": EARLIEST.date(), "last": LATEST.date()}
        oldest = queries.DAYS_OF_SITE.find_one(self._db, projection={"from": 1, "forget_from": 1}, **days)
        if oldest is None or old_zone == new_zone:
            return
        has_lost = queries.has_lost_events(oldest, queries.all_kept_since(self._db, now), now)
        # guard: days of which events were deleted are not lost by another time zone
        if has_lost:
            day = oldest["_id"]["day"]
            raise Conflict(
                f"time_zone: events of {day} were deleted, so it cannot be computed again", field="time_zone"
            )


def _hosts(given: Sequence[str]) -> list[str]:
    if len(given) > MAX_HOSTS:
        raise Invalid(f"own_hosts: at most {MAX_HOSTS}", field="own_hosts", limit=MAX_HOSTS)
    hosts = [host_of(checks.text(host, "own_hosts", min_length=1, max_length=253)) for host in given]
    if not all(hosts):
        raise Invalid("own_hosts must be names of hosts, as example.org", field="own_hosts")
    return sorted(set(hosts))
