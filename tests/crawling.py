"""Following every link, asset and form of a site, in this process."""

from __future__ import annotations

import re
from collections import deque
from urllib.parse import urldefrag, urljoin, urlsplit

from starlette.testclient import TestClient

TAG = re.compile(r"<(?P<name>[a-z]+)(?P<rest>(?:[^>\"]|\"[^\"]*\")*)>", re.IGNORECASE)
TARGET = re.compile(r"(?:^|\s)(?:href|src|action|data-[a-z]+)=\"(?P<url>[^\"]*)\"")
SLOW = ("/api/openapi.json", "/analytics/series.csv")


def targets(html: str) -> list[tuple[str, str]]:
    """Return the elements and addresses of a page's links, assets and forms."""
    return [
        (tag["name"].lower(), found["url"].replace("&amp;", "&").replace("&#34;", '"'))
        for tag in TAG.finditer(html)
        for found in TARGET.finditer(tag["rest"])
    ]


def crawl(client: TestClient, start: str = "/", *, most: int = 60) -> dict[str, int]:
    """Follow the links and assets from a page on; return the status of each address. Forms are not sent."""
    found: dict[str, int] = {}
    waiting = deque([start])
    shapes: set[str] = set()
    while waiting and len(found) < most:
        address = waiting.popleft()
        if address in found or address.endswith(SLOW):
            continue
        answer = client.get(address, headers={"accept": "text/html"}, follow_redirects=False)
        found[address] = answer.status_code
        if moved := answer.headers.get("location"):
            waiting.append(urljoin(address, moved))
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for name, url in targets(answer.text):
            target = urldefrag(urljoin(address, url))[0]
            shape = re.sub(r"[^/]*\d[^/]*", "1", urlsplit(target).path) + "?" * ("?" in target)
            if name in ("a", "link", "script", "img") and target.startswith("/") and shape not in shapes:
                shapes.add(shape)  # one page of each kind
                waiting.append(target)
    return found
