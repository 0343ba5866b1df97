"""What a user agent says: the browser, the system and the device of a person, or the name of a robot."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Agent(NamedTuple):
    """The families of a user agent. `robot` is the name of a robot; a person's browser has none."""

    browser: str
    system: str
    device: str
    robot: str = ""


NONE = Agent("unknown", "unknown", "unknown", "(no user agent)")
OTHER = "other"

# The first that matches is the one: Edge and Opera also say Chrome, and Chrome also says Safari.
BROWSERS = (
    ("Edge", re.compile(r"\bEdg(e|A|iOS)?/")),
    ("Opera", re.compile(r"\bOPR/|\bOpera\b|\bOPiOS/")),
    ("Samsung Internet", re.compile(r"\bSamsungBrowser/")),
    ("Yandex", re.compile(r"\bYaBrowser/")),
    ("Vivaldi", re.compile(r"\bVivaldi/")),
    ("Firefox", re.compile(r"\b(Firefox|FxiOS|Iceweasel|SeaMonkey)/")),
    ("Chrome", re.compile(r"\b(Chrome|CriOS|Chromium)/")),
    ("Internet Explorer", re.compile(r"\bMSIE |\bTrident/")),
    ("Android Browser", re.compile(r"\bAndroid\b.*\bVersion/")),
    ("Safari", re.compile(r"\bSafari/|\b(iPhone|iPad|iPod|Macintosh)\b.*AppleWebKit/")),
)
SYSTEMS = (
    ("Windows", re.compile(r"\bWindows\b")),
    ("iOS", re.compile(r"\b(iPhone|iPad|iPod)\b")),
    ("Android", re.compile(r"\bAndroid\b")),
    ("macOS", re.compile(r"\bMac(intosh| OS)\b|\bMac OS X\b")),
    ("ChromeOS", re.compile(r"\bCrOS\b")),
    ("BSD", re.compile(r"BSD\b")),
    ("Linux", re.compile(r"\bLinux\b|\bX11\b|\bUbuntu\b")),
)
DEVICES = (
    ("television", re.compile(r"\b(SmartTV|SMART-TV|Apple ?TV|GoogleTV|HbbTV|BRAVIA|AFT[A-Z])", re.IGNORECASE)),
    ("tablet", re.compile(r"\biPad\b|\bTablet\b|\bKindle\b|\bSilk/|\bAndroid(?!.*\bMobile\b)")),
    ("phone", re.compile(r"\b(iPhone|iPod|Mobile|Opera Mini|Opera Mobi|IEMobile|BlackBerry)\b")),
    ("desktop", re.compile(r"\b(Windows|Macintosh|Mac OS|X11|CrOS|Linux)\b|BSD\b")),
)
# Browsers of people begin like this; programs and libraries say their own name first.
BROWSER_BEGINS = ("Mozilla/", "Opera/")
_ROBOT = re.compile(
    r"(?<!cu)bot\b|bot[/;_ .-]|crawl|spider|slurp|fetch|archiv|feed|\brss|reader|monitor|preview|scan\b|scanner"
    r"|validator|\bcurl|wget|python|libwww|headless|phantom|selenium|puppeteer|playwright|lighthouse|embed|explorer/|favicon"
    r"|subscribers|externalhit|bingpreview|imageproxy|indy library|https?://|\S@\S+\.\S|mediapartners",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"[\w.!-]*(?:(?<!cu)bot|crawl|spider|slurp|fetch|archiv|feed|rss|reader|monitor|preview|scan|validator|headless|phantom"
    r"|selenium|puppeteer|playwright|lighthouse|embed|externalhit|mediapartners|favicon)[\w.!-]*",
    re.IGNORECASE,
)
_PRODUCT = re.compile(r"\(compatible; ([^;/()]+)|^([^/;()]+)")


@lru_cache(maxsize=20_000)
def agent_of(user_agent: str) -> Agent:
    """Return what a user agent says of itself."""
    if not user_agent:
        return NONE
    return Agent(
        _first(BROWSERS, user_agent),
        _first(SYSTEMS, user_agent),
        _first(DEVICES, user_agent),
        _robot(user_agent),
    )


def _first(families: tuple[tuple[str, re.Pattern[str]], ...], user_agent: str) -> str:
    return next((name for name, pattern in families if pattern.search(user_agent)), OTHER)


def _robot(user_agent: str) -> str:
    if user_agent.startswith(BROWSER_BEGINS) and not _ROBOT.search(user_agent):
        return ""
    if named := _NAME.search(user_agent):
        return named[0][:50]
    product = _PRODUCT.search(user_agent)
    return ((product[1] or product[2]) if product else user_agent).strip()[:50] or "(unnamed)"
