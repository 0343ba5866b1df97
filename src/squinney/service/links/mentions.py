"""What links the texts of the site with the shop: products in a text, and texts that mention a product."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote

from pymongo.errors import PyMongoError

from squinney.content.surface.web import public_nodes
from squinney.errors import SquinneyError
from squinney.system import Assembled

log = logging.getLogger(__name__)

PRODUCT = re.compile(r"/shop/products/([\w.~%-]+)")
KEPT_SECONDS = 30.0
MAX_TEXTS = 500  # that are read, the newest of each folder first; of the posts as many
MAX_SHOWN = 6
TITLE_LENGTH = 70


class Mentioned(NamedTuple):
    """A product that a text links to."""

    url: str
    title: str
    picture: str
    price: int
    currency: str


class Mention(NamedTuple):
    """A public text that links to a product."""

    url: str
    title: str
    author: str
    at: datetime


class Mentions:
    """Finds the links between texts and products. Texts are read again at most every 30 seconds, for all visitors."""

    def __init__(self, systems: Assembled) -> None:
        self._services = systems.services
        self._lock = threading.Lock()
        self._found: dict[str, list[Mention]] = {}
        self._found_at = float("-inf")

    def products_in(self, text: str) -> Sequence[Mentioned]:
        """Return the products that a text links to, in its order; none if they cannot be read."""
        shop = self._services.get("commerce")
        skus = _skus_in(text)[:MAX_SHOWN]
        if shop is None or not skus:
            return ()
        try:
            products = shop["catalog"].get_many(skus)
            pictures = shop["pictures"].of(products)
            return [_mentioned(product, pictures.get(product["_id"], [])) for product in products]
        # guard: a text is shown without its products if these cannot be read
        except (SquinneyError, PyMongoError, KeyError, TypeError) as error:
            log.info("the products of a text were not found: %s", error)
            return ()

    def of_product(self, sku: str) -> Sequence[Mention]:
        """Return the public texts that link to a product, the newest first."""
        if time.monotonic() - self._found_at > KEPT_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._found = self._read()
                self._found_at = time.monotonic()
            # guard: a product is shown although the texts cannot be read
            except (SquinneyError, PyMongoError, KeyError, TypeError) as error:
                log.info("the texts that mention products were not read: %s", error)
            finally:
                self._lock.release()
        return self._found.get(sku, [])[:MAX_SHOWN]

    def _read(self) -> dict[str, list[Mention]]:
        by_sku: dict[str, list[Mention]] = {}
        for text, mention in sorted([*self._nodes(), *self._posts()], key=lambda pair: pair[1].at, reverse=True):
            for sku in _skus_in(text):
                by_sku.setdefault(sku, []).append(mention)
        return by_sku

    def _nodes(self) -> Iterator[tuple[str, Mention]]:
        content = self._services.get("content")
        for path, node in islice(public_nodes(content["nodes"]), MAX_TEXTS) if content else ():
            about = node["metadata"]
            if at := about["published"]:
                yield about["detail"].get("text", ""), Mention(path, about["title"], about["author"]["name"], at)

    def _posts(self) -> Iterator[tuple[str, Mention]]:
        social = self._services.get("social")
        # guard: only posts for everybody are mentioned
        for post in social["network"].public(None, limit=100).items if social else ():
            detail, url = post["detail"], f"/social/posts/{quote(post['id'])}"
            title = detail.get("text", "") or detail.get("url", "")
            short = title if len(title) <= TITLE_LENGTH else f"{title[:TITLE_LENGTH].rstrip()}…"
            yield f"{title} {detail.get('url', '')}", Mention(url, short, post["by"]["name"] or "", post["ts"])


def _skus_in(text: str) -> list[str]:
    return list(dict.fromkeys(unquote(sku).rstrip(".") for sku in PRODUCT.findall(text)))


def _mentioned(product: dict[str, object], pictures: Sequence[dict[str, object]]) -> Mentioned:
    sku, pricing = str(product["_id"]), product["pricing"]
    assert isinstance(pricing, dict)
    picture = f"/shop/pictures/{quote(str(pictures[0]['_id']))}?sku={quote(sku)}&width=160" if pictures else ""
    url = f"/shop/products/{quote(sku, safe='')}"
    return Mentioned(url, str(product["title"]), picture, pricing["retail"], pricing["currency"])
