"""What a report must say, counted from the events in the plainest way: the opposite of `analytics/reports`."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from squinney.analytics.reports.agents import agent_of
from squinney.analytics.reports.requests import is_static
from squinney.analytics.reports.visit_sources import own_hosts_of, source_of

Event = dict[str, Any]
Rows = dict[str, list[int]]
BY_VISIT = {
    "channels": "channel", "referrers": "referrer", "campaigns": "campaign", "campaign_sources": "campaign_source",
    "campaign_mediums": "campaign_medium", "entries": "entry", "exits": "exit", "browsers": "browser",
    "systems": "system", "devices": "device", "countries": "country",
}  # fmt: skip


def is_view(event: Event) -> bool:
    status = event.get("status", 0)
    return (
        "path" in event
        and not is_static(event["path"])
        and event.get("method", "GET") == "GET"
        and (status in (0, 304) or 200 <= status < 300)
    )


def is_failure(event: Event) -> bool:
    is_page = "path" in event and not is_static(event["path"]) and event.get("method", "GET") == "GET"
    return is_page and event.get("status", 0) >= 400


def visits_of(events: list[Event], site: str) -> list[dict[str, Any]]:
    """Return the visits of one day's events."""
    by_visitor: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"]):
        by_visitor[event.get("host", ""), event.get("user_agent", "")].append(event)
    pages_have_files = sum(is_static(event.get("path", "")) for event in events) >= sum(map(is_view, events))
    has_agents = any(agent for _, agent in by_visitor)
    visits = []
    for visitor, requests in by_visitor.items():
        reason = _reason(visitor[1], requests, pages_have_files, has_agents)
        begins = [
            number
            for number, event in enumerate(requests)
            if number == 0 or event["time"] - requests[number - 1]["time"] >= timedelta(minutes=30)
        ]
        for begin, end in zip(begins, [*begins[1:], len(requests)], strict=True):
            visits.append(_visit(visitor, requests[begin:end], reason, site))
    return visits


def _reason(agent: str, requests: list[Event], pages_have_files: bool, has_agents: bool) -> str:
    views = [event for event in requests if is_view(event)]
    files = [event for event in requests if is_static(event.get("path", ""))]
    if agent_of(agent).robot and (agent or has_agents):
        return "user agent"
    a_minute = Counter(event["time"].replace(second=0, microsecond=0) for event in views)
    fails = not views and sum(map(is_failure, requests)) >= 5
    if any(event.get("robot") or event.get("path") == "/robots.txt" for event in requests) or fails:
        return "behaviour"
    if max(a_minute.values(), default=0) > 60:
        return "behaviour"
    return "no static files" if pages_have_files and len(views) >= 5 and not files else ""


def _visit(visitor: tuple[str, str], requests: list[Event], reason: str, site: str) -> dict[str, Any]:
    views = [event for event in requests if is_view(event)]
    agent = agent_of(visitor[1])
    first = views[0] if views else {}
    source = source_of(first.get("referer", ""), first.get("query", ""), own_hosts_of(site)) if views else None
    name = (agent.robot or f"says it is {agent.browser}") if reason else ""
    return {
        "visitor": visitor,
        "requests": requests,
        "views": views,
        "begin": requests[0]["time"],
        "seconds": int(requests[-1]["time"].timestamp()) - int(requests[0]["time"].timestamp()),
        "entry": first.get("path", ""),
        "exit": views[-1]["path"] if views else "",
        "country": next((event["country"] for event in requests if event.get("country")), ""),
        **(source._asdict() if source else {}),
        **agent._asdict(),
        "robot": name,
        "reason": reason,
    }


def hosts(events: list[Event], site: str, first: date, last: date, time_zone: str) -> list[tuple[Any, ...]]:
    """Return the rows of addresses of a range of days in a time zone, the one with the most requests first."""
    by_host: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        local = event["time"].astimezone(ZoneInfo(time_zone)).date()
        if event.get("site", "") == site and first <= local <= last:
            by_host[event.get("host", "")].append(event)
    rows = [
        (
            host,
            len(requests),
            sum(map(is_view, requests)),
            sum(event.get("bytes", 0) for event in requests),
            max(event["time"] for event in requests),
        )
        for host, requests in by_host.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _has(event: Event, name: str, value: str) -> bool:
    if name == "status":
        return event.get("status", 0) == int(value)
    path, query = event.get("path", ""), event.get("query")
    return value == (f"{path}?{query}" if name == "address" and query else path)


def day(events: list[Event], site: str, values: dict[str, str], robots: str) -> dict[str, Any]:
    """Return the totals and panels of the events of one day."""
    of_requests = {name: value for name, value in values.items() if name in ("page", "address", "status")}
    visits = [
        {**visit, "chosen": [one for one in visit["requests"] if all(_has(one, *pair) for pair in of_requests.items())]}
        for visit in visits_of(events, site)
        if all(visit.get(name, "") == value for name, value in values.items() if name not in of_requests)
    ]
    everybody = visits
    visits = [visit for visit in visits if robots == "in" or bool(visit["reason"]) == (robots == "only")]
    real = [visit for visit in visits if visit["views"] and visit["chosen"]]
    rows: dict[str, dict[str, list[tuple[Any, int]]]] = defaultdict(lambda: defaultdict(list))
    for visit in real:
        for panel, name in BY_VISIT.items():
            if visit[name] or name in ("entry", "exit"):
                rows[panel][visit[name]].append((visit["visitor"], len([e for e in visit["chosen"] if is_view(e)])))
    for visit in visits:
        for event in visit["chosen"]:
            path, size = event.get("path", ""), event.get("bytes", 0)
            query = event.get("query")
            one = visit["visitor"], size
            rows["large"][path].append(one)
            rows["statuses"][str(event.get("status", 0))].append(one)
            if event.get("status") == 404:
                rows["not_found"][path].append(one)
            if "seconds" in event:
                rows["slow"][path].append((visit["visitor"], round(event["seconds"] * 1000)))
            if is_view(event):
                rows["pages"][path].append(one)
                rows["addresses"][f"{path}?{query}" if query else path].append(one)
    for visit in everybody:
        if visit["reason"]:
            for event in visit["chosen"]:
                rows["robots"][visit["robot"]].append((visit["visitor"], event.get("bytes", 0)))
                rows["reasons"][visit["reason"]].append((visit["visitor"], event.get("bytes", 0)))
    chosen = [event for visit in visits for event in visit["chosen"]]
    return {
        "totals": {
            "visitors": len({visit["visitor"] for visit in real}),
            "visits": len(real),
            "views": sum(map(is_view, chosen)),
            "requests": len(chosen),
            "bytes": sum(event.get("bytes", 0) for event in chosen),
            "bounces": sum(len(visit["views"]) == 1 for visit in real),
            "seconds": sum(visit["seconds"] for visit in real),
        },
        "panels": {panel: {key: _row(found) for key, found in of.items()} for panel, of in rows.items()},
        "hours": Counter(event["time"] for event in chosen if is_view(event)),
    }


def _row(found: list[tuple[Any, int]]) -> list[int]:
    return [len({visitor for visitor, _ in found}), len(found), sum(amount for _, amount in found)]


def report(
    events: list[Event], site: str, first: date, last: date, time_zone: str, values: dict[str, str], robots: str
) -> dict[str, Any]:
    """Return the totals and panels of a range of days in a time zone."""
    by_day: dict[date, list[Event]] = defaultdict(list)
    for event in events:
        local = event["time"].astimezone(ZoneInfo(time_zone)).date()
        if event.get("site", "") == site and first <= local <= last:
            by_day[local].append(event)
    totals: Counter[str] = Counter()
    panels: dict[str, Rows] = defaultdict(dict)
    views: dict[date, int] = {}
    for local, of_day in by_day.items():
        found = day(of_day, site, values, robots)
        totals.update(found["totals"])
        views[local] = found["totals"]["views"]
        for panel, rows in found["panels"].items():
            for key, row in rows.items():
                panels[panel][key] = [a + b for a, b in zip(panels[panel].get(key, [0, 0, 0]), row, strict=True)]
    return {"totals": dict(totals), "panels": dict(panels), "views": views}
