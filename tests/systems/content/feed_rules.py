"""Validation of RSS and Atom feeds: a schema, and rules that a schema cannot express."""

from __future__ import annotations

from collections import Counter
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal

from lxml import etree

ATOM = "{http://www.w3.org/2005/Atom}"
SCHEMAS = {kind: etree.RelaxNG(file=str(Path(__file__).parent / "rules" / f"{kind}.rng")) for kind in ("rss", "atom")}


def broken_rules(body: bytes, kind: Literal["rss", "atom"]) -> list[str]:
    """Return the rules that the feed breaks; empty if it is valid."""
    root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, no_network=True))
    schema = SCHEMAS[kind]
    found = [] if schema.validate(root) else [f"line {error.line}: {error.message}" for error in schema.error_log]
    return found + (_of_rss(root) if kind == "rss" else _of_atom(root))


def _of_rss(root: Any) -> list[str]:
    guids = Counter(guid.text for guid in root.iter("guid"))
    found = [f"the guid {guid} names {times} items" for guid, times in guids.items() if times > 1]
    for date in [*root.iter("pubDate"), *root.iter("lastBuildDate")]:
        weekday = date.text.split(",")[0]
        if f"{parsedate_to_datetime(date.text):%a}" != weekday:
            found.append(f"{date.text} was not a {weekday}")
    for guid in root.iter("guid"):
        if guid.get("isPermaLink") != "false" and not guid.text.startswith("http"):
            found.append(f"the guid {guid.text} is no link, and does not say so")
    return found


def _of_atom(root: Any) -> list[str]:
    found = []
    entries = root.findall(f"{ATOM}entry")
    if root.find(f"{ATOM}author") is None and any(entry.find(f"{ATOM}author") is None for entry in entries):
        found.append("an entry has no author, and neither has the feed")
    ids = Counter(one.text for one in root.iter(f"{ATOM}id"))
    found += [f"the id {one} is used {times} times" for one, times in ids.items() if times > 1]
    for parent in [root, *entries]:
        links = [link for link in parent.findall(f"{ATOM}link") if link.get("rel", "alternate") == "alternate"]
        kinds = Counter((link.get("type"), link.get("hreflang")) for link in links)
        found += [f"{times} alternates of {kind}" for kind, times in kinds.items() if times > 1]
        if parent.find(f"{ATOM}content") is None and not links:
            found.append("an entry without content needs an alternate link")
    if not any(link.get("rel") == "self" for link in root.findall(f"{ATOM}link")):
        found.append("the feed does not say where it is")
    return found
