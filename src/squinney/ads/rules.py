"""The network's pure decisions: what is valid, what an ad is worth, what a cap leaves, how large a lease is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from squinney import checks
from squinney.ads.documents import MOST_BID, MOST_BUDGET, MOST_CAP, THOUSAND, Budget, Cap, Pricing
from squinney.errors import Invalid

CURRENCY = r"[A-Z]{3}"
MODELS = ("cpm", "cpc")
CREATIVES: dict[str, tuple[str, ...]] = {"text": ("title", "text"), "image": ("image", "alt")}
MOST_KEYWORDS = 50
MOST_SITES = 1_000
# A click rate is believed as if a thousand impressions with two clicks had come before.
PRIOR_CLICKS = 2
PRIOR_IMPRESSIONS = 1_000
SHARE_OF_REST = 16
MOST_SERVES_A_LEASE = 5_000
BURST_SECONDS = 3_600
DAY_SECONDS = 86_400
_LOGARITHMS = [math.log(1.1 + matches) for matches in range(MOST_KEYWORDS + 1)]


# ---- input ----


def fields(value: Any, field: str, known: Iterable[str]) -> dict[str, Any]:
    """An object of known fields."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{field} must be an object", field=field)
    for name in value:
        if name not in known:
            raise Invalid(f"{field} has no field {str(name)[:50]!r}", field=field)
    return dict(value)


def _one_of(value: Any, field: str, known: Sequence[str]) -> str:
    if value not in known:
        raise Invalid(f"{field} must be one of {', '.join(known)}", field=field)
    return cast(str, value)


def pricing(value: Any) -> Pricing:
    """A checked price."""
    given = fields(value, "pricing", ("model", "bid"))
    model = _one_of(given.get("model"), "pricing.model", MODELS)
    return {"model": model, "bid": checks.integer(given.get("bid"), "pricing.bid", least=1, most=MOST_BID)}


def budget(value: Any) -> Budget:
    """A checked budget."""
    given = fields(value, "budget", ("total", "daily", "currency", "pacing"))
    total = checks.integer(given.get("total"), "budget.total", least=1, most=MOST_BUDGET)
    daily = given.get("daily")
    if daily is not None:
        checks.integer(daily, "budget.daily", least=1, most=MOST_BUDGET)
    currency = checks.text(given.get("currency", "EUR"), "budget.currency", most=3, pattern=CURRENCY)
    pacing = _one_of(given.get("pacing", "asap"), "budget.pacing", ("asap", "even"))
    return {"total": total, "daily": daily, "currency": currency, "pacing": pacing}


def cap(value: Any, field: str = "cap") -> Cap | None:
    """A checked cap, or none."""
    if value is None:
        return None
    given = fields(value, field, ("impressions", "per_seconds"))
    most = checks.integer(given.get("impressions"), f"{field}.impressions", least=1, most=MOST_CAP)
    span = checks.integer(given.get("per_seconds"), f"{field}.per_seconds", least=1, most=90 * DAY_SECONDS)
    return {"impressions": most, "per_seconds": span}


def keywords(value: Any, field: str = "keywords", *, most: int = MOST_KEYWORDS) -> list[str]:
    """Words, each once, in lower case, without blanks around them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise Invalid(f"{field} must be a list of words", field=field)
    words = [checks.text(word, field, least=1, most=100).strip().casefold() for word in value]
    if len(words) > most:
        raise Invalid(f"{field}: at most {most}", field=field, limit=most)
    return list(dict.fromkeys(word for word in words if word))


def targeting(value: Any) -> dict[str, list[str]]:
    """Where and beside what a campaign may be shown; what is left out is not asked for."""
    given = fields(value or {}, "targeting", ("sites", "keywords"))
    checked = {}
    if given.get("keywords"):
        checked["keywords"] = keywords(given["keywords"], "targeting.keywords")
    if given.get("sites"):
        sites = given["sites"]
        if not isinstance(sites, list | tuple) or len(sites) > MOST_SITES:
            raise Invalid(f"targeting.sites must be a list of at most {MOST_SITES}", field="targeting.sites")
        checked["sites"] = [checks.identifier(site, "targeting.sites") for site in sites]
    return checked


def moment(value: Any, field: str) -> datetime | None:
    """An aware time, in UTC, or none."""
    return None if value is None else checks.time(value, field)


def creative(value: Any) -> dict[str, Any]:
    """What is shown and where a click leads: words or a picture, never markup."""
    given = fields(value, "creative", ("kind", "url", "width", "height", *sum(CREATIVES.values(), ())))
    kind = _one_of(given.get("kind"), "creative.kind", tuple(CREATIVES))
    checked: dict[str, Any] = {"kind": kind, "url": address(given.get("url"), "creative.url")}
    for name in CREATIVES[kind]:
        if name == "image":
            checked[name] = address(given.get(name), "creative.image")
        else:
            checked[name] = checks.text(given.get(name, ""), f"creative.{name}", most=500)
    for name in ("width", "height"):
        if given.get(name) is not None:
            checked[name] = checks.integer(given[name], f"creative.{name}", least=1, most=10_000)
    return checked


def address(value: Any, field: str) -> str:
    """An address on the web, or a path of this site: nothing that runs."""
    like = "an address that begins with https://, http:// or one slash"
    pattern = r"(https?://[^\s/\\@?#][^\s\\]*|/(?![/\\])[^\s\\]*)"
    checked = checks.text(value, field, least=1, most=2_000, pattern=pattern, like=like)
    if re.search(r"[\x00-\x20\x7f]", checked):
        raise Invalid(f"{field} must be {like}", field=field)
    return checked


# ---- what an ad is worth ----


def ecpm(price: Pricing, impressions: int = 0, clicks: int = 0) -> int:
    """What a thousand impressions bring, in thousandths of a minor unit."""
    if price["model"] == "cpm":
        return price["bid"] * THOUSAND
    rate = (clicks + PRIOR_CLICKS) * THOUSAND * THOUSAND
    return price["bid"] * rate // (impressions + PRIOR_IMPRESSIONS)


def score(worth: int, matches: int | None) -> float:
    """By which ads are ordered, best first; without keywords an ad's worth alone counts."""
    return float(worth) if matches is None else worth * _LOGARITHMS[matches]


def price_of(price: Pricing) -> int:
    """What an impression or a click costs, in thousandths."""
    return price["bid"] if price["model"] == "cpm" else price["bid"] * THOUSAND


# ---- leases ----


def day_of(at: datetime) -> datetime:
    """The day in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def day_allowance(daily: int, pacing: str, at: datetime) -> int:
    """How much of a day's money may be out by now: paced evenly, an hour ahead of the day at most."""
    if pacing != "even":
        return daily
    gone = (at - day_of(at)).total_seconds() + BURST_SECONDS
    return min(daily, int(daily * gone / DAY_SECONDS))


def slice_of(left: int, price: int) -> int:
    """How much to lease of what is left: a part of it, a bounded number of serves, and one serve at the end."""
    if left < price:
        return 0
    return max(price, min(left // SHARE_OF_REST, price * MOST_SERVES_A_LEASE))


# ---- caps ----


def encoded(*names: str) -> str:
    """Names as one field name: percent signs stand for what a field's name may not hold."""
    return "/".join(re.sub(r"[%$./\x00]", lambda found: f"%{ord(found[0]):02X}", name) for name in names)


def is_capped(shown: Mapping[str, Any], key: str, limit: Cap, now: datetime) -> bool:
    """Whether a profile says that the ad was shown often enough."""
    times = shown.get(key, {}).get("at", [])[-limit["impressions"] :]
    return len(times) >= limit["impressions"] and times[0] > now - timedelta(seconds=limit["per_seconds"])
