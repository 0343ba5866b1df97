"""OpenRTB 2.6: a banner bid request in, a bid response out. Money is a float here and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from squinney.ads import AdNetwork, Serve
from squinney.ads.documents import THOUSAND
from squinney.patterns.ids import new_id

MOST_IMPS = 20
MINOR_UNITS = 100  # in the unit that bids are quoted in


class _Lenient(BaseModel):
    """What we do not know is passed over, as the specification asks."""

    model_config = ConfigDict(extra="ignore")


class Format(_Lenient):
    """A size."""

    w: int | None = None
    h: int | None = None


class Banner(Format):
    """A place for a banner."""

    format: list[Format] = Field(default=[], max_length=100)


class Imp(_Lenient):
    """A place for an ad; `tagid` is our zone."""

    id: str = Field(min_length=1, max_length=200)
    banner: Banner | None = None
    tagid: str = Field("", max_length=200)
    bidfloor: float = Field(0, ge=0, allow_inf_nan=False)
    bidfloorcur: str = Field("USD", max_length=3)


class Site(_Lenient):
    """Where it is; its `id` or else its `domain` is our site."""

    id: str = Field("", max_length=200)
    domain: str = Field("", max_length=200)
    keywords: str = Field("", max_length=2_000)


class User(_Lenient):
    """Who sees it; without consent we keep nothing of them."""

    id: str = Field("", max_length=200)
    keywords: str = Field("", max_length=2_000)


class Regs(_Lenient):
    """What the law asks."""

    coppa: int = 0
    gdpr: int = 0


class BidRequest(_Lenient):
    """A bid request, as far as we read it."""

    id: str = Field(min_length=1, max_length=200)
    imp: list[Imp] = Field(min_length=1, max_length=MOST_IMPS)
    site: Site | None = None
    app: Site | None = None
    user: User | None = None
    regs: Regs | None = None
    cur: list[str] = Field(default=[], max_length=50)


def answer(network: AdNetwork, request: BidRequest, base_url: str) -> dict[str, Any] | None:
    """The bid response; None for no bid. All bids of one response have one currency: that of the first."""
    bids: list[dict[str, Any]] = []
    currency: list[str] = []
    for imp in request.imp:
        if imp.banner and (serve := _chosen(network, request, imp, currency)):
            bids.append(_bid(imp, serve, base_url))
    if not bids:
        return None
    return {"id": request.id, "bidid": new_id(), "cur": currency[0], "seatbid": [{"seat": "squinney", "bid": bids}]}


def _chosen(network: AdNetwork, request: BidRequest, imp: Imp, currency: list[str]) -> Serve | None:
    where = request.site or request.app
    site = (where.id or where.domain) if where else ""
    if not site or not imp.tagid:
        return None
    regs = request.regs or Regs()
    user = request.user.id if request.user else ""
    words = f"{where.keywords if where else ''},{request.user.keywords if request.user else ''}".split(",")
    sizes = _sizes(imp.banner)

    def accepts(creative: Mapping[str, Any], ecpm: int, money: str) -> bool:
        fits = not sizes or "width" not in creative or (creative["width"], creative.get("height")) in sizes
        wanted = money in currency if currency else not request.cur or money in request.cur
        enough = not imp.bidfloor or (money == imp.bidfloorcur and _quoted(ecpm) >= imp.bidfloor)
        return fits and wanted and enough

    keywords = [word.strip()[:100] for word in words if word.strip()][:50]
    found = network.choose(
        site, imp.tagid, user=user or None, keywords=keywords, consent=not (regs.coppa or regs.gdpr), accepts=accepts
    )
    if not found:
        return None
    currency[:] = [network.get(found[0].campaign_id)["budget"]["currency"]]
    return found[0]


def _sizes(banner: Banner | None) -> set[tuple[int | None, int | None]]:
    every = [*banner.format, banner] if banner else []
    return {(one.w, one.h) for one in every if one.w}


def _quoted(ecpm: int) -> float:
    return ecpm / THOUSAND / MINOR_UNITS


def _bid(imp: Imp, serve: Serve, base_url: str) -> dict[str, Any]:
    creative = serve.creative
    bid: dict[str, Any] = {
        "id": new_id(),
        "impid": imp.id,
        "price": _quoted(serve.ecpm),
        "adid": serve.unit,
        "cid": serve.campaign_id,
        "crid": serve.unit,
        "adm": markup(serve, base_url),
        "burl": f"{base_url}/ads/seen/{serve.serve_id}",
        "mtype": 1,
    }
    if host := urlsplit(creative["url"]).hostname:
        bid["adomain"] = [host]
    if "width" in creative:
        bid |= {"w": creative["width"], "h": creative.get("height")}
    return bid


def markup(serve: Serve, base_url: str) -> str:
    """The ad as HTML for a frame of somebody else's: words and a picture, every character of them escaped."""
    creative = serve.creative
    if creative["kind"] == "image":
        inner = f'<img src="{html.escape(creative["image"])}" alt="{html.escape(creative["alt"])}">'
    else:
        inner = f"<strong>{html.escape(creative['title'])}</strong> {html.escape(creative['text'])}"
    return f'<a href="{html.escape(base_url)}/ads/click/{serve.serve_id}" rel="sponsored noopener">{inner}</a>'
