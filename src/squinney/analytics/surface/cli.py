"""The commands of `squinney analytics` for hits, roll-ups and retention."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from squinney.analytics import (
    Hits,
    Retention,
    Rollups,
    Sessions,
    advise_shard_key,
    rollup_collections,
)
from squinney.analytics import verify as verify_rollups
from squinney.analytics.calendar import zone
from squinney.analytics.policy import Strategy, Unit
from squinney.analytics.retention import MIN_SECONDS
from squinney.analytics.rollups.pipelines import Finest
from squinney.analytics.shard_advice import CANDIDATES
from squinney.analytics.surface import cli_logs as logs
from squinney.analytics.surface import cli_reports as reports
from squinney.analytics.surface.cli_logs import database
from squinney.cli.parameters import Json, Limit
from squinney.cli.printing import console, print_json, print_result
from squinney.errors import Invalid, NotFound
from squinney.mongo import schema
from squinney.mongo.schema import Db

app = typer.Typer(help="Logs, reports, hits and roll-ups.", no_args_is_help=True)
app.command("import")(logs.import_logs)
app.command()(logs.follow)
app.command()(logs.imports)
app.command()(logs.rejects)
app.command()(logs.forget)
app.command()(reports.report)
app.command("report-site")(reports.report_site)
app.command()(reports.funnel)
app.command()(reports.goals)
app.command()(reports.goal)
app.command()(reports.now)
app.command()(reports.hosts)
app.command()(reports.share)
app.command()(reports.shares)

MAX_DAYS = 24_855  # the maximum of a TTL index

Start = Annotated[datetime | None, typer.Option("--start", help="Start time in UTC; default: a week before the end.")]
End = Annotated[datetime | None, typer.Option("--end", help="End time in UTC, excluded; default: now.")]
OneSite = Annotated[str | None, typer.Option("--site", help="The site; optional if there is only one.")]
FinestOption = Annotated[
    str, typer.Option("--finest", help="hour, or quarter for time zones with an offset of half an hour.")
]
Zone = Annotated[str, typer.Option("--time-zone", help="The time zone in which days, weeks and months begin.")]


def _range(start: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    last = end.replace(tzinfo=UTC) if end else now
    return (start.replace(tzinfo=UTC) if start else last - timedelta(days=7)), last


# ---- hits ----


@app.command()
def top(
    context: typer.Context,
    site: OneSite = None,
    start: Start = None,
    end: End = None,
    limit: Limit = 10,
    as_json: Json = False,
) -> None:
    """Show the pages with the most hits."""
    with database(context) as db:
        hits = Hits(db)
        site = _site_or_only(hits, site)
        rows = hits.top_pages(site, *_range(start, end), limit=limit)
        reason = "" if rows else _why_empty(hits, site)
    lines = [f"{row['hits']:>12,}  {row['page']}" for row in rows] or [reason]
    print_result(rows, "\n".join(lines), as_json)


def _site_or_only(hits: Hits, site: str | None) -> str:
    """Return the given site, or else the only one that has hits."""
    if site is not None:
        return site
    sites = hits.sites()
    # guard: with several sites, one must be named
    if len(sites) > 1:
        raise Invalid(f"choose one of the sites with --site: {_listed(sites)}", field="site")
    return sites[0] if sites else ""


def _why_empty(hits: Hits, site: str) -> str:
    """Explain an empty result: the site has hits at another time, other sites have hits, or there are none."""
    if last := hits.last_day(site):
        return f"no hits of {site or 'the site without a name'} in this time; the last ones were on {last:%Y-%m-%d}"
    sites = hits.sites()
    return f"no hits of {site!r}; sites with hits: {_listed(sites)}" if sites else "no hits yet"


def _listed(sites: list[str]) -> str:
    shown = ", ".join(site or "''" for site in sites[:20])
    return f"{shown}, ..." if len(sites) > 20 else shown


@app.command()
def series(
    context: typer.Context,
    page: str,
    site: OneSite = None,
    by: Annotated[str, typer.Option(help="minute, hour, day, week or month.")] = "day",
    start: Start = None,
    end: End = None,
    time_zone: Zone = "UTC",
    as_json: Json = False,
) -> None:
    """Show the hits of a page per minute, hour, day, week or month, zeros included."""
    if by not in ("minute", "hour", "day", "week", "month"):
        raise Invalid("--by must be one of minute, hour, day, week, month", field="by")
    with database(context) as db:
        hits = Hits(db)
        points = hits.series(_site_or_only(hits, site), page, *_range(start, end), cast(Any, by), time_zone=time_zone)
    lines = [f"{point.at:%Y-%m-%d %H:%M %Z}  {point.hits:>10,}" for point in points]
    print_result([point._asdict() for point in points], "\n".join(lines), as_json)


# ---- roll-ups ----


@app.command()
def rollup(
    context: typer.Context,
    key: Annotated[str, typer.Option(help="The field to group by, or several: site,path.")] = "path",
    value: Annotated[str, typer.Option(help="The field to sum.")] = "bytes",
    time: Annotated[str, typer.Option(help="The field with the time.")] = "time",
    source: Annotated[str, typer.Option(help="The collection of events.")] = "analytics.events",
    name: Annotated[str, typer.Option(help="The prefix of its collections.")] = "rollups",
    time_zone: Zone = "UTC",
    finest: FinestOption = "hour",
    stop: Annotated[bool, typer.Option("--stop", help="Stop this roll-up; its buckets stay.")] = False,
    as_json: Json = False,
) -> None:
    """Run a roll-up; from then on the background job keeps it up to date."""
    with database(context) as db:
        if stop:
            _stop(db, name, as_json)
            return
        rollups = Rollups(db, source, key, value, time, time_zone, name=name, finest=cast(Finest, finest))
        schema.apply(db, rollup_collections(name))
        ran = rollups.run()
    counts = ", ".join(f"{count:,} {level}" for level, count in ran.buckets.items())
    print_result(asdict(ran), f"run {ran.run}: {counts}", as_json)


def _stop(db: Db, name: str, as_json: bool) -> None:
    named = next((rollups for rollups in Rollups.registered(db) if rollups.name == name), None)
    if named is None:
        raise NotFound(f"there is no roll-up with the name {name}", name=name)
    named.stop()
    print_result({"stopped": name}, f"the roll-up {name} is stopped", as_json)


@app.command()
def verify(
    context: typer.Context,
    run: Annotated[bool, typer.Option(help="Run the roll-ups first.")] = True,
    as_json: Json = False,
) -> None:
    """Compare every level of every roll-up with the raw events; exit with status 1 if any bucket differs."""
    with database(context) as db:
        for rollups in Rollups.registered(db) if run else []:
            rollups.run()
        problems = [str(problem) for problem in verify_rollups(db)]
        names = [rollups.name for rollups in Rollups.registered(db)]
    summary = f"{', '.join(names) or 'no roll-up'}: {len(problems):,} buckets differ from the events"
    print_result({"rollups": names, "differing": problems}, "\n".join([*problems, summary]), as_json)
    if problems:
        raise typer.Exit(1)


@app.command()
def sessions(
    context: typer.Context, time_zone: Zone = "UTC", finest: FinestOption = "hour", as_json: Json = False
) -> None:
    """Derive visitors' sessions from the events, and roll up their lengths per user, from hours to years."""
    with database(context) as db:
        derived = Sessions(db).derive()
        # guard: the sessions command passes on --finest
        rollups = Sessions(db).rollups(time_zone, finest=cast(Finest, finest))
        rollups.run()
        longest = db["analytics.visits_yearly"].find({"value.count": {"$gt": 0}}).sort("value.total", -1).limit(10)
        tz = zone(time_zone)
        rows = [
            {"user": row["_id"]["k"], "year": row["_id"]["d"].astimezone(tz).year, **row["value"]} for row in longest
        ]
    lines = [
        f"{derived.changed:,} sessions changed, of {derived.hosts:,} hosts",
        *(
            f"{row['total']:>10,} s in {row['count']:>5,} sessions, {row['mean']:>8,.0f} s each  {row['user']}"
            for row in rows
        ),
    ]
    print_result({"changed": derived.changed, "longest": rows}, "\n".join(lines), as_json)


# ---- retention and shard keys ----


@app.command()
def retention(
    context: typer.Context,
    strategy: Annotated[str | None, typer.Argument(help="keep, ttl or rotate.")] = None,
    unit: Annotated[str, typer.Option(help="day or month: what rotate deletes at once.")] = "day",
    keep_days: Annotated[float | None, typer.Option(help="The maximum age of events, for ttl and rotate.")] = None,
    as_json: Json = False,
) -> None:
    """Show the policy for old events, or change it."""
    if strategy is None and keep_days is not None:
        raise Invalid("--keep-days needs a strategy", field="strategy")
    # guard: an error about --keep-days names that option
    if keep_days is not None and not MIN_SECONDS / 86_400 <= keep_days < MAX_DAYS:
        message = f"--keep-days must be at least {MIN_SECONDS / 86_400:.5f}, a minute, and less than {MAX_DAYS:,}"
        raise Invalid(message, field="keep-days")
    if strategy == "ttl" and keep_days is None:
        raise Invalid("ttl needs --keep-days, the age at which events are deleted", field="keep-days")
    with database(context) as db:
        retained = Retention(db)
        if strategy is not None:
            seconds = None if keep_days is None else int(keep_days * 86_400)
            retained.switch(cast(Strategy, strategy), unit=cast(Unit, unit), keep_seconds=seconds)
        policy = asdict(retained.policy())
    print_result(policy, ", ".join(f"{name}: {value}" for name, value in policy.items() if value), as_json)


@app.command("advise-shard-key")
def advise(
    context: typer.Context,
    candidates: Annotated[
        list[str] | None, typer.Argument(help="Shard keys, such as source,from or _id:hashed.")
    ] = None,
    sample: Annotated[int, typer.Option(help="The number of events to sample.")] = 10_000,
    as_json: Json = False,
) -> None:
    """Rate shard keys for the pages of events by a sample of them and by the declared queries."""
    with database(context) as db:
        keys = [_key(text) for text in candidates] if candidates else CANDIDATES
        advices = advise_shard_key(db, keys, sample=sample)
    if as_json:
        print_json([asdict(advice) for advice in advices])
        return
    table = Table("key", "values", "hottest", "monotonic", "routed", "verdict", "reason", show_lines=True)
    for advice in advices:
        table.add_row(
            ", ".join(f"{name}: {kind}" for name, kind in advice.key.items()),
            f"{advice.cardinality:,}",
            f"{advice.hottest_share:.1%}\n{advice.hottest[:30]}",
            "yes" if advice.monotonic else "no",
            "\n".join(advice.routed) or "none",
            advice.verdict,
            advice.reason,
        )
    console.print(table)


def _key(text: str) -> dict[str, int | str]:
    parts = [part.partition(":") for part in text.split(",")]
    return {name.strip(): "hashed" if kind == "hashed" else 1 for name, _, kind in parts}
