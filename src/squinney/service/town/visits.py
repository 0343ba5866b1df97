"""A year of visits of this site: hits by minute, and the requests of the last weeks as an imported log."""

from __future__ import annotations

import io
import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from squinney.analytics import EventLog, ReportDays, page_bytes
from squinney.analytics.hits.documents import DAILY_HITS, MONTHLY_HITS
from squinney.analytics.hits.increments import id_of
from squinney.mongo.schema import Document
from squinney.service.links.page_ads import SITE
from squinney.service.town.magazine import paths
from squinney.service.town.parts import Town, insert
from squinney.service.town.products import products

ROBOTS = f"{SITE} robots"
DAYS = 365
LOGGED_DAYS = 60  # of which each request is an event too
A_DAY = 300  # visits, in the mean of the year
SECTIONS = {
    "/": 26, "/shop": 18, "/site": 6, "/site/magazine": 16, "/social": 9, "/game": 11, "/analytics": 5, "/ads": 2,
    "/social/people": 5, "/prove": 9, "/api/docs": 4, "/site/gallery": 4, "/shop/cart": 5,
}  # fmt: skip
HOURS = [2, 1, 1, 1, 1, 2, 4, 7, 10, 11, 10, 11, 14, 12, 10, 10, 11, 13, 16, 20, 22, 19, 12, 6]
WEEK = [0.92, 0.9, 0.95, 1.0, 1.16, 1.28, 1.14]
MISSING = ["/shop/products/lp-quiet-tuesday", "/wp-login.php", "/favicon.png", "/site/blog", "/robots.txt.bak"]
REFERRERS = [
    *["-"] * 9, "https://search.example/?q=saltmere+lighthouse", "https://search.example/?q=sodium+lp",
    "https://news.example/town-relights-its-lamp", "https://records.example/forum/t/8812", "https://mail.example/",
]  # fmt: skip
CAMPAIGNS = [*[""] * 8, "?utm_source=letter&utm_medium=email&utm_campaign=relighting"]
STAY = timedelta(minutes=14)
AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/143.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Mobile Safari/604.1",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/141.0",
    "Mozilla/5.0 (Linux; Android 15) Chrome/141.0 Mobile",
]
CRAWLERS = ["Searchbot/2.1 (+https://search.example/bot)", "FeedSpider/1.4", "ArchiveCrawler/0.9"]


@dataclass(frozen=True)
class Visit:
    """One view of a page."""

    at: datetime
    path: str
    robot: bool = False


def load(town: Town) -> None:
    """Load the hits of a year, and the log of the last weeks with its roll-up and its reports.

    Atomic: the hits in one transaction; the log as `EventLog.import_file`.
    After a crash: the next call continues.
    """
    visits = list(_visits(town))
    insert(town.db, "town: hits", _hits(visits))
    logged = [visit for visit in visits if visit.at >= town.ago(LOGGED_DAYS)]
    log = EventLog(town.db)
    for name, robot in ((SITE, False), (ROBOTS, True)):
        content = "".join(_log(logged, robot=robot))
        log.import_file(io.BytesIO(content.encode()), source=f"access log of {name}", site=SITE)
    page_bytes(town.db).run()
    ReportDays(town.db).update()


def _visits(town: Town) -> Iterator[Visit]:
    """Yield the year's visits, day by day: fewer at night, more on Fridays and Saturdays, and more each month."""
    rng = random.Random("visits")
    articles, records = list(paths()), [product.path for product in products()]
    for days in range(DAYS, -1, -1):
        day = town.ago(days).replace(hour=0)
        growth = 0.55 + 0.9 * (1 - days / DAYS) + 0.7 * math.exp(-abs(days - 82) / 3)  # the night of the relighting
        weights = dict(SECTIONS)
        for path, published in articles:
            if days <= published:
                weights[path] = round(2 + 24 * math.exp(-(published - days) / 5))
        weights.update(dict.fromkeys(rng.sample(records, 14), 3))
        pages, by_weight = list(weights), list(weights.values())
        count = round(A_DAY * growth * WEEK[day.weekday()] * rng.uniform(0.88, 1.12))
        for number in range(count):
            at = day + timedelta(hours=rng.choices(range(24), HOURS)[0], seconds=rng.randrange(3_600))
            if at < town.now:
                yield Visit(at, rng.choices(pages, by_weight)[0], robot=number % 9 == 0)


def _hits(visits: list[Visit]) -> dict[str, list[Document]]:
    """Return the documents of the hits, as if each had been counted when it happened."""
    minutes: dict[tuple[datetime, str, str], Counter[int]] = defaultdict(Counter)
    for visit in visits:
        day = visit.at.replace(hour=0, minute=0, second=0, microsecond=0)
        minutes[day, ROBOTS if visit.robot else SITE, visit.path][visit.at.hour * 60 + visit.at.minute] += 1
    days: list[Document] = []
    months: dict[tuple[datetime, str, str], dict[str, int]] = defaultdict(dict)
    for (day, site, page), counted in minutes.items():
        hours: dict[str, dict[str, int]] = defaultdict(dict)
        for minute, hits in counted.items():
            hours[str(minute // 60)][str(minute % 60)] = hits
        total = counted.total()
        hourly = {hour: sum(of_hour.values()) for hour, of_hour in hours.items()}
        days.append({**_key(day, site, page), "total": total, "hourly": hourly, "minute": dict(hours)})
        months[day.replace(day=1), site, page][str(day.day)] = total
    monthly = [{**_key(*key), "total": sum(daily.values()), "daily": daily} for key, daily in months.items()]
    return {DAILY_HITS: days, MONTHLY_HITS: monthly}


def _key(date: datetime, site: str, page: str) -> Document:
    return {"_id": id_of(date, site, page), "metadata": {"date": date, "site": site, "page": page}}


def _log(visits: list[Visit], *, robot: bool) -> Iterator[str]:
    """Yield the lines of a web server's log, with pages that do not exist, and a broken line now and then."""
    rng = random.Random(f"log {robot}")
    here: deque[tuple[datetime, str]] = deque(maxlen=12)  # people who may look at one more page
    for number, visit in enumerate(
        sorted((visit for visit in visits if visit.robot == robot), key=lambda visit: visit.at)
    ):
        missing = rng.random() < (0.12 if robot else 0.02)
        path, referrer = rng.choice(MISSING) if missing else visit.path, "-"
        staying = [client for at, client in here if visit.at - at < STAY]
        if robot:
            who = f"203.0.113.{rng.randint(10, 14)} {rng.choice(CRAWLERS)}"
        elif staying and rng.random() < 0.62:
            who = rng.choice(staying)
        else:
            who, referrer = f"198.51.100.{rng.randint(10, 250)} {rng.choice(AGENTS)}", rng.choice(REFERRERS)
            path += rng.choice(CAMPAIGNS) if referrer == "-" and not missing else ""
        here.append((visit.at, who))
        host, _, agent = who.partition(" ")
        size = rng.randint(1_200, 1_400) if missing else rng.randint(9_000, 48_000)
        request = f'"GET {path} HTTP/1.1" {404 if missing else 200} {size} "{referrer}" "{agent}"'
        yield f"{host} - - [{visit.at:%d/%b/%Y:%H:%M:%S} +0000] {request}\n"
        if number % 400 == 399:
            yield "a line that the disk swallowed when the power went\n"
