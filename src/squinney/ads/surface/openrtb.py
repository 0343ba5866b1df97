"""OpenRTB 2.6: a banner bid request in, a bid response out. Money is a float here and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from squinney.ads import AdNetwork, Serve
from squinney.ads.documents import THOUSAND
from squinney.ads.network import IMPRESSION_SECONDS
from squinney.patterns.ids import new_id
from squinney.patterns.money import decimals

SEAT = "squinney"
MOST_LISTED = 100
MOST_IMPS = 20  # that are looked at
TEXT_AD, PICTURE_AD = 1, 2  # of `btype`
PER_KIND = {"text": TEXT_AD, "image": PICTURE_AD}
OPTED_OUT = 2  # where a `us_privacy` string says whether its sale was refused


def _listed(value: Any) -> Any:
    """Of long lists the first: the specification has no limit."""
    return value[:MOST_LISTED] if isinstance(value, list) else value


Words = Annotated[list[str], BeforeValidator(_listed)]
Numbers = Annotated[list[int], BeforeValidator(_listed)]


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class _Lenient(BaseModel):
    """What we do not know is passed over, as the specification asks."""

    model_config = ConfigDict(extra="ignore")


class Format(_Lenient):
    """A size."""

    w: int | None = None
    h: int | None = None


class Banner(Format):
    """A place for a banner."""

    format: Annotated[list[Format], BeforeValidator(_listed)] = []
    btype: Numbers = []

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Those that are asked for."""
        return [(one.w, one.h) for one in (*self.format, self) if one.w and one.h]


class Pmp(_Lenient):
    """Deals; we have none."""

    private_auction: int = 0


class Imp(_Lenient):
    """A place for an ad; `tagid` is our zone."""

    id: str = Field(min_length=1)
    banner: Banner | None = None
    pmp: Pmp = Pmp()
    tagid: str = ""
    bidfloor: float = Field(0, ge=0, allow_inf_nan=False)
    bidfloorcur: str = "USD"
    secure: int = 0


class Content(_Lenient):
    """What is shown there."""

    keywords: str = ""
    kwarray: Words = []

    @property
    def words(self) -> list[str]:
        """Its keywords, in either way of giving them."""
        return [*self.kwarray, *self.keywords.split(",", MOST_LISTED)[:MOST_LISTED]]


class Site(Content):
    """Where it is: its `id`, or else its `bundle` or `domain`, is our site."""

    id: str = ""
    bundle: str = ""
    domain: str = ""
    content: Content = Content()


class User(Content):
    """Who sees it."""

    id: str = ""


class Device(_Lenient):
    """What it is seen with, as far as it says that nobody should be followed."""

    dnt: int = 0
    lmt: int = 0


class RegsExt(_Lenient):
    """Where `gdpr` and `us_privacy` were before 2.6."""

    gdpr: int = 0
    us_privacy: str = ""


class Regs(RegsExt):
    """What the law asks."""

    coppa: int = 0
    gpp_sid: Numbers = []
    ext: RegsExt = RegsExt()


class BidRequest(_Lenient):
    """A bid request, as far as we read it."""

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
    wseat: list[str] = []
    bseat: list[str] = []
    acat: list[str] = []

    @property
    def may_be_remembered(self) -> bool:
        """Whether we may keep what the user saw. We read no consent strings: where a law applies, we do not."""
        regs, device = self.regs, self.device
        opted_out = any(said.us_privacy[OPTED_OUT : OPTED_OUT + 1] in ("Y", "y") for said in (regs, regs.ext))
        asked = regs.coppa or regs.gdpr or regs.ext.gdpr or regs.gpp_sid or device.dnt or device.lmt
        return not (asked or opted_out)

    @property
    def is_for_us(self) -> bool:
        """Whether we may bid at all: it is billable, our seat is let in, and it asks for no category."""
        let_in = not self.wseat or SEAT in self.wseat
        return not self.test and let_in and SEAT not in self.bseat and not self.acat


def read(body: bytes) -> BidRequest:
    """The request; what is null is taken for left out.

    Raises: `ValidationError`.
    """
    return BidRequest.model_validate(_without_nulls(_ANYTHING.validate_json(body)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value if one is not None] if isinstance(value, list) else value


def answer(network: AdNetwork, request: BidRequest, base_url: str) -> dict[str, Any] | None:
    """The bid response; None for no bid. All bids of one response have one currency: that of the first."""
    bids: list[dict[str, Any]] = []
    currencies = request.cur
    for imp in request.imp[:MOST_IMPS] if request.is_for_us else []:
        if serve := _chosen(network, request, imp, currencies, base_url):
            bids.append(_bid(imp, serve, base_url))
            currencies = [serve.currency]
    if not bids:
        return None
    return {"id": request.id, "bidid": new_id(), "cur": currencies[0], "seatbid": [{"seat": SEAT, "bid": bids}]}


def _chosen(network: AdNetwork, request: BidRequest, imp: Imp, currencies: list[str], base_url: str) -> Serve | None:
    where = request.site or request.app
    site = (where.id or where.bundle or where.domain) if where else ""
    banner = imp.banner
    if where is None or banner is None or imp.pmp.private_auction or not _is_name(site) or not _is_name(imp.tagid):
        return None
    sizes = banner.sizes

    def accepts(creative: Mapping[str, Any], ecpm: int, currency: str) -> bool:
        fits = not sizes or "width" not in creative or (creative["width"], creative.get("height")) in sizes
        wanted = not currencies or currency in currencies
        enough = not imp.bidfloor or (currency == imp.bidfloorcur and _quoted(ecpm, currency) >= imp.bidfloor)
        safe = not imp.secure or creative["kind"] != "image" or _asset(creative, base_url).startswith("https:")
        known_kind = PER_KIND[creative["kind"]] not in banner.btype
        return fits and wanted and enough and safe and known_kind and not _blocked(request, creative, base_url)

    remembered = request.may_be_remembered
    words = [*where.words, *where.content.words, *(request.user.words if remembered else [])]
    found = network.choose(
        site,
        imp.tagid,
        user=request.user.id if _is_name(request.user.id) else None,
        keywords=[word.strip()[:100] for word in words if word.strip("\0 ")][:50],
        consent=remembered,
        accepts=accepts,
    )
    return found[0] if found else None


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and "\0" not in text


def _blocked(request: BidRequest, creative: Mapping[str, Any], base_url: str) -> bool:
    """Whether the request leaves out the advertiser's domain, or one above it."""
    if not request.badv:
        return False
    parts = _domain(creative, base_url).split(".")
    above = {".".join(parts[number:]) for number in range(len(parts))}
    return any(one.lower() in above for one in request.badv)


def _domain(creative: Mapping[str, Any], base_url: str) -> str:
    return urlsplit(urljoin(base_url, creative["url"])).hostname or ""


def _asset(creative: Mapping[str, Any], base_url: str) -> str:
    return urljoin(base_url, str(creative["image"]))


def _quoted(ecpm: int, currency: str) -> float:
    return float(ecpm / THOUSAND / 10 ** decimals(currency))


def _bid(imp: Imp, serve: Serve, base_url: str) -> dict[str, Any]:
    creative = serve.creative
    sizes = imp.banner.sizes if imp.banner else []
    width, height = (creative.get("width"), creative.get("height")) if "width" in creative else (sizes or [(0, 0)])[0]
    bid: dict[str, Any] = {
        "id": new_id(),
        "impid": imp.id,
        "price": _quoted(serve.ecpm, serve.currency),
        "adid": serve.unit,
        "adomain": [_domain(creative, base_url)],
        "cid": serve.campaign_id,
        "crid": serve.unit,
        "adm": markup(serve, base_url),
        "burl": f"{base_url}/ads/seen/{serve.serve_id}",
        "exp": IMPRESSION_SECONDS,
        "mtype": 1,
    }
    return bid | ({"w": width, "h": height} if width and height else {})


def markup(serve: Serve, base_url: str) -> str:
    """The ad as HTML for a frame of somebody else's: words and a picture, every character of them escaped."""
    creative = serve.creative
    if creative["kind"] == "image":
        inner = f'<img src="{html.escape(_asset(creative, base_url))}" alt="{html.escape(creative["alt"])}">'
    else:
        inner = f"<strong>{html.escape(creative['title'])}</strong> {html.escape(creative['text'])}"
    return f'<a href="{html.escape(base_url)}/ads/click/{serve.serve_id}" rel="sponsored noopener">{inner}</a>'
