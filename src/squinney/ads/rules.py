"""The network's rules without side effects: valid input, eCPMs and scores, the size of leases, and caps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from squinney import checks
from squinney.ads.documents import MAX_BID, MAX_BUDGET, MAX_CAP, THOUSAND, Budget, Cap, Pricing
from squinney.errors import Invalid

CURRENCY = r"[A-Z]{3}"
MODELS = ("cpm", "cpc")
CREATIVES: dict[str, tuple[str, ...]] = {"text": ("title", "text"), "image": ("image", "alt")}
# What a creative may declare for OpenRTB, under the names of its bid: a pattern for texts, none for numbers
DECLARATIONS = {"cat": r"[A-Za-z0-9_-]+", "attr": "", "adomain": r"[a-z0-9-]+(\.[a-z0-9-]+)*"}
MAX_DECLARED = 50
MAX_KEYWORDS = 50
MAX_SITES = 1_000
# A click rate is estimated as if a thousand impressions with two clicks had come before.
PRIOR_CLICKS = 2
PRIOR_IMPRESSIONS = 1_000
SHARE_OF_REST = 16  # a lease is at most a sixteenth of what is left
MAX_SERVES_PER_LEASE = 5_000
BURST_SECONDS = 3_600
DAY_SECONDS = 86_400
_LOGARITHMS = [math.log(1.1 + matches) for matches in range(MAX_KEYWORDS + 1)]


# ---- input ----


def fields(value: Any, field: str, known: Iterable[str]) -> dict[str, Any]:
    """Check that a value is an object with known fields only."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{field} must be an object", field=field)
    for name in value:
        if name not in known:
            raise Invalid(f"{field} has an unknown field {str(name)[:50]!r}", field=field)
    return dict(value)


def _one_of(value: Any, field: str, known: Sequence[str]) -> str:
    if value not in known:
        raise Invalid(f"{field} must be one of {', '.join(known)}", field=field)
    return cast(str, value)


def pricing(value: Any) -> Pricing:
    """Check the pricing of a campaign."""
    given = fields(value, "pricing", ("model", "bid"))
    model = _one_of(given.get("model"), "pricing.model", MODELS)
    return {"model": model, "bid": checks.integer(given.get("bid"), "pricing.bid", minimum=1, maximum=MAX_BID)}


def budget(value: Any) -> Budget:
    """Check the budget of a campaign."""
    given = fields(value, "budget", ("total", "daily", "currency", "pacing"))
    total = checks.integer(given.get("total"), "budget.total", minimum=1, maximum=MAX_BUDGET)
    daily = given.get("daily")
    if daily is not None:
        checks.integer(daily, "budget.daily", minimum=1, maximum=MAX_BUDGET)
    currency = checks.text(given.get("currency", "EUR"), "budget.currency", max_length=3, pattern=CURRENCY)
    pacing = _one_of(given.get("pacing", "asap"), "budget.pacing", ("asap", "even"))
    return {"total": total, "daily": daily, "currency": currency, "pacing": pacing}


def cap(value: Any, field: str = "cap") -> Cap | None:
    """Check a cap, or None."""
    if value is None:
        return None
    given = fields(value, field, ("impressions", "per_seconds"))
    impressions = checks.integer(given.get("impressions"), f"{field}.impressions", minimum=1, maximum=MAX_CAP)
    span = checks.integer(given.get("per_seconds"), f"{field}.per_seconds", minimum=1, maximum=90 * DAY_SECONDS)
    return {"impressions": impressions, "per_seconds": span}


def keywords(value: Any, field: str = "keywords", *, max_words: int = MAX_KEYWORDS) -> list[str]:
    """Check keywords and normalize them: lower case, no surrounding blanks, no duplicates."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Invalid(f"{field} must be a list of words", field=field)
    words = [checks.text(word, field, min_length=1, max_length=100).strip().casefold() for word in value]
    if len(words) > max_words:
        raise Invalid(f"{field} must have at most {max_words} words", field=field, limit=max_words)
    return list(dict.fromkeys(word for word in words if word))


def targeting(value: Any) -> dict[str, list[str]]:
    """Check targeting: the sites and keywords that a campaign is limited to. A missing field sets no limit."""
    given = fields(value or {}, "targeting", ("sites", "keywords"))
    checked = {}
    if given.get("keywords"):
        checked["keywords"] = keywords(given["keywords"], "targeting.keywords")
    if given.get("sites"):
        sites = given["sites"]
        if not isinstance(sites, list | tuple) or len(sites) > MAX_SITES:
            raise Invalid(f"targeting.sites must be a list of at most {MAX_SITES} sites", field="targeting.sites")
        checked["sites"] = [checks.identifier(site, "targeting.sites") for site in sites]
    return checked


def moment(value: Any, field: str) -> datetime | None:
    """Check a time with a time zone and convert it to UTC, or return None."""
    return None if value is None else checks.time(value, field)


def creative(value: Any) -> dict[str, Any]:
    """Check a creative: text or an image, and the URL of a click. Markup is never accepted."""
    known = ("kind", "url", "width", "height", *DECLARATIONS, *sum(CREATIVES.values(), ()))
    given = fields(value, "creative", known)
    kind = _one_of(given.get("kind"), "creative.kind", tuple(CREATIVES))
    checked: dict[str, Any] = {"kind": kind, "url": address(given.get("url"), "creative.url")}
    for name in CREATIVES[kind]:
        if name == "image":
            checked[name] = address(given.get(name), "creative.image")
        else:
            checked[name] = checks.text(given.get(name, ""), f"creative.{name}", max_length=500)
    for name in ("width", "height"):
        if given.get(name) is not None:
            checked[name] = checks.integer(given[name], f"creative.{name}", minimum=1, maximum=10_000)
    return checked | _declarations(given)


def _declarations(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check what a creative declares for bids: content categories, creative attributes and the advertiser's domains."""
    checked: dict[str, Any] = {}
    for name in DECLARATIONS:
        values, field = given.get(name), f"creative.{name}"
        if values is None:
            continue
        if not isinstance(values, list | tuple) or len(values) > MAX_DECLARED:
            raise Invalid(f"{field} must be a list of at most {MAX_DECLARED} entries", field=field, limit=MAX_DECLARED)
        if name == "attr":
            checked[name] = [checks.integer(value, field, minimum=1, maximum=10_000) for value in values]
        else:
            checked[name] = [
                checks.text(value, field, min_length=1, max_length=200, pattern=DECLARATIONS[name]) for value in values
            ]
    return checked


def address(value: Any, field: str) -> str:
    """Check a web URL or a path of this site. URLs that can run code, such as `javascript:`, are refused."""
    like = "a URL that begins with https://, http:// or one slash"
    pattern = r"(https?://[^\s/\\@?#][^\s\\]*|/(?![/\\])[^\s\\]*)"
    checked = checks.text(value, field, min_length=1, max_length=2_000, pattern=pattern, like=like)
    if re.search(r"[\x00-\x20\x7f]", checked):
        raise Invalid(f"{field} must be {like}", field=field)
    return checked


# ---- eCPMs, scores and prices ----


def ecpm(price: Pricing, impressions: int = 0, clicks: int = 0) -> int:
    """Return the expected revenue from a thousand impressions, in thousandths of a minor unit."""
    if price["model"] == "cpm":
        return price["bid"] * THOUSAND
    rate = (clicks + PRIOR_CLICKS) * THOUSAND * THOUSAND
    return price["bid"] * rate // (impressions + PRIOR_IMPRESSIONS)


def score(ecpm: int, matches: int | None) -> float:
    """Return the score that orders ads, best first. Without keywords (`matches` is None) it is the eCPM."""
    return float(ecpm) if matches is None else ecpm * _LOGARITHMS[matches]


def price_of(price: Pricing) -> int:
    """Return the price of an impression or a click, in thousandths of a minor unit."""
    return price["bid"] if price["model"] == "cpm" else price["bid"] * THOUSAND


# ---- leases ----


def day_of(at: datetime) -> datetime:
    """Return the start of the day, for a time in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def day_allowance(daily: int, pacing: str, at: datetime) -> int:
    """Return how much of a daily budget may be committed by this time. Even pacing allows the next hour's share too."""
    if pacing != "even":
        return daily
    elapsed = (at - day_of(at)).total_seconds() + BURST_SECONDS
    return min(daily, int(daily * elapsed / DAY_SECONDS))


def lease_amount(left: int, price: int) -> int:
    """Return how much to lease of what is left: a share of it, for a limited number of serves but at least one."""
    if left < price:
        return 0
    return max(price, min(left // SHARE_OF_REST, price * MAX_SERVES_PER_LEASE))


# ---- caps ----


def field_name(*names: str) -> str:
    """Join names to one field name. Characters that a field name must not contain are percent-encoded."""
    return "/".join(re.sub(r"[%$./\x00]", lambda match: f"%{ord(match[0]):02X}", name) for name in names)


def is_capped(shown: Mapping[str, Any], key: str, limit: Cap, now: datetime) -> bool:
    """Return whether the user was shown the ad as often as the cap allows in its window."""
    times = shown.get(key, {}).get("at", [])[-limit["impressions"] :]
    return len(times) >= limit["impressions"] and times[0] > now - timedelta(seconds=limit["per_seconds"])
