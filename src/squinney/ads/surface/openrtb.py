"""Answer OpenRTB 2.6 banner bid requests. Only here, amounts of money are floats: the specification requires it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import unquote, urljoin, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from squinney.ads import AdNetwork, Serve
from squinney.ads.documents import THOUSAND
from squinney.ads.network import IMPRESSION_SECONDS
from squinney.patterns.ids import new_id
from squinney.patterns.money import decimals

SEAT = "squinney"
MAX_LISTED = 100
MAX_IMPS = 20  # of a request that get a bid
TEXT_AD, IMAGE_AD = 1, 2  # values of `btype`
BTYPES = {"text": TEXT_AD, "image": IMAGE_AD}
IAB_1_0 = 1  # the value of `cattax`: the taxonomy of the categories that creatives declare
OPTED_OUT = 2  # the index in a `us_privacy` string of the user's opt-out of the sale of data


def _truncated(value: Any) -> Any:
    """Cut long lists, since the specification sets no limit."""
    return value[:MAX_LISTED] if isinstance(value, list) else value


Words = Annotated[list[str], BeforeValidator(_truncated)]
Numbers = Annotated[list[int], BeforeValidator(_truncated)]


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class _Lenient(BaseModel):
    """Ignores unknown fields, as the specification requires."""

    model_config = ConfigDict(extra="ignore")


class Format(_Lenient):
    """A banner size."""

    w: int | None = None
    h: int | None = None


class Banner(Format):
    """The allowed sizes and excluded types of a banner."""

    format: Annotated[list[Format], BeforeValidator(_truncated)] = []
    btype: Numbers = []
    battr: Annotated[list[int], Field(max_length=10_000)] = []

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The allowed sizes as (width, height)."""
        return [(size.w, size.h) for size in (*self.format, self) if size.w and size.h]


class Pmp(_Lenient):
    """Private deals. The network has none."""

    private_auction: int = 0


class Imp(_Lenient):
    """An ad slot of the page. `tagid` is the zone."""

    id: str = Field(min_length=1)
    banner: Banner | None = None
    pmp: Pmp = Pmp()
    tagid: str = ""
    bidfloor: float = Field(0, ge=0, allow_inf_nan=False)
    bidfloorcur: str = "USD"
    secure: int = 0


class Content(_Lenient):
    """The keywords of a page's content."""

    keywords: str = ""
    kwarray: Words = []

    @property
    def words(self) -> list[str]:
        """The keywords, given as a list or separated by commas."""
        return [*self.kwarray, *self.keywords.split(",", MAX_LISTED)[:MAX_LISTED]]


class Site(Content):
    """The website or app. Its `id`, or else its `bundle` or `domain`, is the site."""

    id: str = ""
    bundle: str = ""
    domain: str = ""
    content: Content = Content()


class User(Content):
    """The visitor."""

    id: str = ""


class Device(_Lenient):
    """The visitor's device: only its settings against tracking."""

    dnt: int = 0
    lmt: int = 0


class RegsExt(_Lenient):
    """The fields `gdpr` and `us_privacy`, which versions before 2.6 had in `ext`."""

    gdpr: int = 0
    us_privacy: str = ""


class Regs(RegsExt):
    """The laws that apply."""

    coppa: int = 0
    gpp_sid: Numbers = []
    ext: RegsExt = RegsExt()


class BidRequest(_Lenient):
    """The fields of a bid request that the network reads."""

    id: str = Field(min_length=1)
    imp: list[Imp] = Field(min_length=1)
    site: Site | None = None
    app: Site | None = None
    user: User = User()
    device: Device = Device()
    regs: Regs = Regs()
    test: int = 0
    cur: Words = []
    badv: Annotated[list[str], Field(max_length=10_000)] = []
    bcat: Annotated[list[str], Field(max_length=10_000)] = []
    cattax: int = IAB_1_0
    wseat: list[str] = []
    bseat: list[str] = []
    acat: list[str] = []

    @property
    def may_be_remembered(self) -> bool:
        """Whether a profile of the user may be kept. Consent strings are not read: if a law applies, none is kept."""
        regs, device = self.regs, self.device
        # guard: an opt-out of sale is respected
        opted_out = any(source.us_privacy[OPTED_OUT : OPTED_OUT + 1] in ("Y", "y") for source in (regs, regs.ext))
        forbidden = regs.coppa or regs.gdpr or regs.ext.gdpr or regs.gpp_sid or device.dnt or device.lmt
        # guard: no profile is kept if a law or the user forbids it
        return not (forbidden or opted_out)

    @property
    def may_get_bids(self) -> bool:
        """Whether the network may bid: the request is billable, allows our seat, and requires no category."""
        allowed = not self.wseat or SEAT in self.wseat
        # guard: a request that allows only some categories gets no bid
        # guard: a request that excludes our seat gets no bid
        # guard: a test request gets no bid
        return not self.test and allowed and SEAT not in self.bseat and not self.acat


def read(body: bytes) -> BidRequest:
    """Parse a bid request. A field with null counts as missing.

    Raises: `ValidationError`.
    """
    return BidRequest.model_validate(_without_nulls(_ANYTHING.validate_json(body)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value if inner is not None] if isinstance(value, list) else value


def respond(network: AdNetwork, request: BidRequest, base_url: str) -> dict[str, Any] | None:
    """Return the bid response, or None for no bid. All bids of a response have the currency of the first."""
    bids: list[dict[str, Any]] = []
    currencies = request.cur
    for imp in request.imp[:MAX_IMPS] if request.may_get_bids else []:
        if serve := _choose(network, request, imp, currencies, base_url):
            bids.append(_bid(imp, serve, base_url))
            currencies = [serve.currency]
    if not bids:
        return None
    return {"id": request.id, "bidid": new_id(), "cur": currencies[0], "seatbid": [{"seat": SEAT, "bid": bids}]}


def _choose(network: AdNetwork, request: BidRequest, imp: Imp, currencies: list[str], base_url: str) -> Serve | None:
    publisher = request.site or request.app
    site = (publisher.id or publisher.bundle or publisher.domain) if publisher else ""
    banner = imp.banner
    # guard: private auctions get no bid
    if publisher is None or banner is None or imp.pmp.private_auction or not _is_name(site) or not _is_name(imp.tagid):
        return None
    sizes = banner.sizes

    def accepts(creative: Mapping[str, Any], ecpm: int, currency: str) -> bool:
        fits = not sizes or "width" not in creative or (creative["width"], creative.get("height")) in sizes
        currency_allowed = not currencies or currency in currencies
        above_floor = not imp.bidfloor or (currency == imp.bidfloorcur and _bid_price(ecpm, currency) >= imp.bidfloor)
        secure = not imp.secure or _is_secure(creative, base_url)
        type_allowed = BTYPES[creative["kind"]] not in banner.btype and not _has_blocked_attribute(banner, creative)
        blocked = _is_blocked(request, creative, base_url) or _has_blocked_category(request, creative)
        return fits and currency_allowed and above_floor and secure and type_allowed and not blocked

    remembered = request.may_be_remembered
    words = [*publisher.words, *publisher.content.words, *(request.user.words if remembered else [])]
    serves = network.choose(
        site,
        imp.tagid,
        user=request.user.id if _is_name(request.user.id) else None,
        keywords=[word.strip()[:100] for word in words if word.strip("\0 ")][:50],
        consent=remembered,
        accepts=accepts,
    )
    return serves[0] if serves else None


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and "\0" not in text


def _is_blocked(request: BidRequest, creative: Mapping[str, Any], base_url: str) -> bool:
    """Return whether the request blocks the advertiser's domain or a parent domain."""
    if not request.badv:
        return False
    domains = set()
    for domain in {*_domains(creative, base_url), _host(creative, base_url)}:
        parts = domain.split(".")
        domains |= {".".join(parts[number:]) for number in range(len(parts))}
    # guard: blocked advertisers get no bid
    return any(_domain(blocked) in domains for blocked in request.badv)


def _domain(text: str) -> str:
    """Return a domain in the one form that browsers make of all ways to write it, such as `EVIL%2eexample.`."""
    # guard: a blocked domain written otherwise is the same domain
    name = unquote(text)
    with suppress(UnicodeError):  # too long, or with an empty part
        name = name.encode("idna").decode()
    return name.rstrip(".").lower()


def _has_blocked_category(request: BidRequest, creative: Mapping[str, Any]) -> bool:
    """Return whether the request blocks a category of the creative, or one above it: IAB7 includes IAB7-39.

    A creative that declares no categories may be of any. Categories are those of the IAB's taxonomy 1.0, the default.
    """
    if not request.bcat:
        return False
    # guard: a creative without categories gets no bid if some are blocked
    if request.cattax != IAB_1_0 or not creative.get("cat"):
        return True
    own = {category.upper() for category in creative["cat"]}
    own |= {category.partition("-")[0] for category in own}
    # guard: blocked categories get no bid
    return any(category.upper() in own for category in request.bcat)


def _has_blocked_attribute(banner: Banner, creative: Mapping[str, Any]) -> bool:
    """Return whether the banner blocks an attribute of the creative. One that declares no list may have any."""
    if not banner.battr:
        return False
    # guard: blocked attributes get no bid
    return "attr" not in creative or not set(banner.battr).isdisjoint(creative["attr"])


def _is_secure(creative: Mapping[str, Any], base_url: str) -> bool:
    """Return whether everything that the ad loads or links to uses HTTPS."""
    used = [base_url, urljoin(base_url, str(creative["url"]))]
    if creative["kind"] == "image":
        used.append(_image_url(creative, base_url))
    # guard: a secure placement gets https only
    return all(url.lower().startswith("https:") for url in used)


def _domains(creative: Mapping[str, Any], base_url: str) -> list[str]:
    """Return the advertiser's domains: as declared, or else the host of the destination."""
    return creative.get("adomain") or [_host(creative, base_url)]


def _host(creative: Mapping[str, Any], base_url: str) -> str:
    return _domain(urlsplit(urljoin(base_url, creative["url"])).hostname or "")


def _image_url(creative: Mapping[str, Any], base_url: str) -> str:
    return urljoin(base_url, str(creative["image"]))


def _bid_price(ecpm: int, currency: str) -> float:
    return float(ecpm / THOUSAND / 10 ** decimals(currency))


def _bid(imp: Imp, serve: Serve, base_url: str) -> dict[str, Any]:
    creative = serve.creative
    sizes = imp.banner.sizes if imp.banner else []
    width, height = (creative.get("width"), creative.get("height")) if "width" in creative else (sizes or [(0, 0)])[0]
    bid: dict[str, Any] = {
        "id": new_id(),
        "impid": imp.id,
        "price": _bid_price(serve.ecpm, serve.currency),
        "adid": serve.unit,
        "adomain": _domains(creative, base_url),
        "cid": serve.campaign_id,
        "crid": serve.unit,
        "adm": markup(serve, base_url),
        "burl": f"{base_url}/ads/seen/{serve.serve_id}",
        "exp": IMPRESSION_SECONDS,
        "mtype": 1,
    }
    declared = {name: creative[name] for name in ("cat", "attr") if creative.get(name)}
    return bid | declared | ({"w": width, "h": height} if width and height else {})


def markup(serve: Serve, base_url: str) -> str:
    """Render the ad as HTML for another site's frame. All text of the creative is escaped."""
    creative = serve.creative
    if creative["kind"] == "image":
        inner = f'<img src="{html.escape(_image_url(creative, base_url))}" alt="{html.escape(creative["alt"])}">'
    else:
        inner = f"<strong>{html.escape(creative['title'])}</strong> {html.escape(creative['text'])}"
    return f'<a href="{html.escape(base_url)}/ads/click/{serve.serve_id}" rel="sponsored noopener">{inner}</a>'
