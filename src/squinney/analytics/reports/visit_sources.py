"""Where a visit came from: the referring host, the campaign in the address, and the kind of source."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

DIRECT, SEARCH, SOCIAL, AI, EMAIL, CAMPAIGN, SITES = (
    "Direct",
    "Search",
    "Social networks",
    "AI assistants",
    "Email",
    "Campaigns",
    "Other sites",
)


class VisitSource(NamedTuple):
    """The source of a visit; empty where the first request names none."""

    channel: str = DIRECT
    referrer: str = ""
    campaign: str = ""
    campaign_source: str = ""
    campaign_medium: str = ""


def _hosts(names: str) -> tuple[str, ...]:
    return tuple(names.split())


# Hosts, and everything below them. AI assistants come first: some are below the host of a search engine.
_AI = _hosts("""
    chatgpt.com chat.openai.com openai.com claude.ai perplexity.ai gemini.google.com bard.google.com
    copilot.microsoft.com chat.deepseek.com chat.mistral.ai grok.com x.ai meta.ai poe.com you.com phind.com
""")
_SOCIAL = _hosts("""
    facebook.com fb.com fb.me instagram.com twitter.com x.com t.co linkedin.com lnkd.in reddit.com redd.it
    pinterest.com youtube.com youtu.be tiktok.com threads.net threads.com bsky.app mastodon.social
    news.ycombinator.com lobste.rs vk.com ok.ru weibo.com tumblr.com quora.com stackoverflow.com discord.com
    telegram.org t.me whatsapp.com snapchat.com plus.google.com
""")
_SEARCH = _hosts("""
    bing.com duckduckgo.com ecosia.org startpage.com qwant.com baidu.com so.com sogou.com naver.com daum.net
    search.brave.com kagi.com ask.com aol.com seznam.cz yep.com mojeek.com metager.de swisscows.com dogpile.com
    rambler.ru
""")
_SEARCH_NAMES = re.compile(r"(^|\.)(google|yahoo|yandex|bing|search)\.[a-z.]{2,}$")
_MAIL = re.compile(r"(^|\.)(mail|webmail|outlook|email)\.")
_MAIL_MEDIUMS = ("email", "e-mail", "newsletter", "mail")


def host_of(address: str) -> str:
    """Return the host of an address, in lower case, without `www.` and without a port; empty if it has none."""
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""
    return host.removeprefix("www.").rstrip(".")[:200]


def own_hosts_of(site: str, more: Collection[str] = ()) -> frozenset[str]:
    """Return the hosts that are no source of a site: the site's own name, and those that its settings name."""
    return frozenset(host for name in (site, *more) if (host := host_of(name)))


@lru_cache(maxsize=20_000)
def source_of(referer: str, query: str, own_hosts: frozenset[str]) -> VisitSource:
    """Return the source that the first request of a visit names."""
    host = host_of(referer) if referer else ""
    referrer = "" if host in own_hosts else host
    tags = _tags(query)
    campaign, source, medium = (tags.get(f"utm_{name}", "") for name in ("campaign", "source", "medium"))
    return VisitSource(_channel(referrer, source, medium, bool(tags)), referrer, campaign, source, medium)


def _tags(query: str) -> dict[str, str]:
    if "utm_" not in query:
        return {}
    pairs = parse_qsl(query, errors="replace", max_num_fields=1_000) if query.count("&") < 1_000 else []
    return {name: value.replace("\0", "") for name, value in reversed(pairs) if name.startswith("utm_")}


def _channel(referrer: str, source: str, medium: str, is_tagged: bool) -> str:
    if medium.lower() in _MAIL_MEDIUMS:
        return EMAIL
    for host in (referrer, host_of(source) if "." in source else ""):
        if host and (known := _known(host)):
            return known
    if is_tagged:
        return CAMPAIGN
    return SITES if referrer else DIRECT


def _known(host: str) -> str:
    for channel, hosts in ((AI, _AI), (SOCIAL, _SOCIAL), (SEARCH, _SEARCH)):
        if any(host == known or host.endswith(f".{known}") for known in hosts):
            return channel
    if _MAIL.search(host):
        return EMAIL
    return SEARCH if _SEARCH_NAMES.search(host) else ""
