"""The pictures on the cards of the home page: covers, photos, sparklines, initials and a small map of the world."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from pymongo.errors import PyMongoError

from squinney.clock import utcnow
from squinney.content import Viewer
from squinney.errors import SquinneyError
from squinney.game.surface import maps
from squinney.patterns.money import formatted
from squinney.pictures.svg import element
from squinney.service.links.page_views import SITE
from squinney.service.town.parts import is_demo
from squinney.system import Assembled

log = logging.getLogger(__name__)

KEPT_SECONDS = 20.0  # the pictures are the same for all visitors
DAYS = 30
COVERS, PHOTOS, FACES, CAMPAIGNS, ROOMS = 3, 3, 5, 10, 40
OF_A_BUSINESS = ("ledger", "ads")
WIDTH, HEIGHT = 280, 72
PALETTE = 6
Services = Mapping[str, Any]


class CardPictures:
    """Makes the pictures of all cards at most every 20 seconds, however many visitors there are."""

    def __init__(self, systems: Assembled) -> None:
        self._systems = systems
        self._lock = threading.Lock()
        self._made: dict[str, Markup] = {}
        self._made_at = 0.0

    def get(self) -> Mapping[str, Markup]:
        """Return the pictures by the name of their system; one that cannot be made is left out."""
        # One thread makes them; others show the ones before.
        if time.monotonic() - self._made_at > KEPT_SECONDS and self._lock.acquire(blocking=not self._made):
            try:
                if time.monotonic() - self._made_at > KEPT_SECONDS:
                    self._made = {name: made for name in PICTURES if (made := self._picture(name))}
                    self._made_at = time.monotonic()
            finally:
                self._lock.release()
        return self._made

    def _picture(self, name: str) -> Markup:
        services = self._systems.services.get(name)
        # guard: sums of a business are shown of the demo data only
        if services is None or (name in OF_A_BUSINESS and not is_demo(self._systems.db)):
            return Markup("")
        try:
            return PICTURES[name](services)
        # guard: a card is shown without its picture if that cannot be made
        except (SquinneyError, PyMongoError, KeyError, TypeError) as error:  # a damaged document
            log.info("the picture of the card of %s was not made: %s", name, error)
            return Markup("")


# ---- one picture for each system ----


def _covers(services: Services) -> Markup:
    newest = services["catalog"].find(sort="newest", limit=COVERS * 2).items
    pictures = services["pictures"].of(newest)
    urls = [
        f"/shop/pictures/{quote(of_product[0]['_id'])}?sku={quote(sku)}&width=320"
        for sku, of_product in pictures.items()
    ]
    return _row([_image(url) for url in urls[:COVERS]], "covers")


def _photos(services: Services) -> Markup:
    nodes, visitor = services["nodes"], Viewer()
    tops = nodes.children(None, viewer=visitor).items
    gallery = next((node for node in tops if node["metadata"]["type"] == "gallery"), None)
    if gallery is None:
        return Markup("")
    newest = [
        node
        for node in nodes.recent(gallery, viewer=visitor, limit=PHOTOS).items
        if node["metadata"]["detail"].get("web")
    ]
    return _row(
        [_image(f"/site/-/asset/{node['_id']}?v={quote(node['metadata']['nonce'])}") for node in newest], "photos"
    )


def _faces(services: Services) -> Markup:
    people = services["network"].members(None, limit=FACES).items
    initials = ["".join(word[0] for word in member["name"].split()[:2]).upper() for member in people if member["name"]]
    faces = [
        Markup('<span class="face face-{}">{}</span>').format(sum(map(ord, letters)) % PALETTE, letters)
        for letters in initials
    ]
    return _row(faces, "faces")


def _hits(services: Services) -> Markup:
    # guard: the home page shows no views of a private site
    if SITE in services["reports"].private_sites():
        return Markup("")
    now = utcnow()
    days = services["hits"].series(SITE, None, now - timedelta(days=DAYS - 1), now + timedelta(seconds=1), "day")
    counts = [day.hits for day in days]
    if not any(counts):
        return Markup("")
    today = f"{counts[-1]:,} views today, {sum(counts):,} in {DAYS} days"
    return _sparkline(counts, f"Views by day: {today}") + _told(today)


def _impressions(services: Services) -> Markup:
    network, since, counts = services["network"], utcnow() - timedelta(days=DAYS), Counter[Any]()
    for campaign in network.all(limit=CAMPAIGNS).items:
        for row in network.delivered(campaign["_id"], "day", start=since):
            counts[row["day"]] += row["impressions"]
    if not counts:
        return Markup("")
    total = f"{counts.total():,} impressions in {DAYS} days"
    return _sparkline([counts[day] for day in sorted(counts)], f"Impressions by day: {total}") + _told(total)


def _money(services: Services) -> Markup:
    total = services["accounts"].total("EUR")
    return Markup('<span class="big-sum">{}</span>').format(formatted(total, "EUR")) + _told(
        "in all accounts, to the cent"
    )


def _rooms(services: Services) -> Markup:
    rooms = {room["_id"]: room for room in services["world"].locations(limit=ROOMS).items}
    start = services["world"].start()["_id"]
    cells = maps.cells_of(rooms, start)
    if len(cells) < 2:
        return Markup("")
    left, top = (min(cell[axis] for cell in cells.values()) for axis in (0, 1))
    wide, high = (max(cell[axis] for cell in cells.values()) - low + 1 for axis, low in ((0, left), (1, top)))
    step_x, step_y = WIDTH / wide, HEIGHT / high
    at = {name: ((x - left + 0.5) * step_x, (y - top + 0.5) * step_y) for name, (x, y) in cells.items()}
    ways = {frozenset((name, target)) for name in at for target in rooms[name]["exits"].values() if target in at}
    lines = "".join(_way(*(at[name] for name in sorted(pair))) for pair in sorted(ways, key=sorted) if len(pair) == 2)
    boxes = "".join(_room(*at[name], step_x, step_y, is_start=name == start) for name in at)
    return _svg(lines + boxes, f"A map of {len(at)} rooms")


PICTURES: dict[str, Callable[[Services], Markup]] = {
    "analytics": _hits,
    "ledger": _money,
    "commerce": _covers,
    "content": _photos,
    "ads": _impressions,
    "game": _rooms,
    "social": _faces,
}


# ---- their parts ----


def _image(url: str) -> Markup:
    return Markup('<img src="{}" alt="" loading="lazy" width="160" height="160">').format(url)


def _row(parts: Sequence[Markup], kind: str) -> Markup:
    return Markup('<span class="card-row {}">{}</span>').format(kind, Markup("").join(parts)) if parts else Markup("")


def _told(text: str) -> Markup:
    return Markup('<span class="card-told">{}</span>').format(text)


def _sparkline(counts: Sequence[int], title: str) -> Markup:
    width, top = WIDTH / len(counts), max(*counts, 1)
    bars = "".join(
        element(
            "rect",
            of="bar",
            x=f"{number * width + width * 0.15:.1f}",
            y=f"{HEIGHT - max(2.0, (HEIGHT - 4) * count / top):.1f}",
            width=f"{width * 0.7:.1f}",
            height=f"{max(2.0, (HEIGHT - 4) * count / top):.1f}",
        )
        for number, count in enumerate(counts)
    )
    return _svg(bars, title)


def _way(start: tuple[float, float], end: tuple[float, float]) -> str:
    return element("line", of="way", x1=f"{start[0]:.1f}", y1=f"{start[1]:.1f}", x2=f"{end[0]:.1f}", y2=f"{end[1]:.1f}")


def _room(x: float, y: float, step_x: float, step_y: float, *, is_start: bool) -> str:
    wide, high = min(18.0, step_x * 0.7), min(10.0, step_y * 0.7)
    corner = {"x": f"{x - wide / 2:.1f}", "y": f"{y - high / 2:.1f}", "width": f"{wide:.1f}", "height": f"{high:.1f}"}
    return element("rect", of="room here" if is_start else "room", rx=2, **corner)


def _svg(inside: str, title: str) -> Markup:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return Markup(element("svg", inside, of="card-drawing", viewBox=box, role="img", aria_label=title))  # noqa: S704
