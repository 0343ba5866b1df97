"""The network's pure decisions: who may see what, what comes into whose news, and what is valid."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.schema import Document
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.errors import SocialLimit, TooFast

MOST_NAME = 100
MOST_CIRCLE_NAME = 50
MOST_CIRCLES = 100
MOST_CIRCLED = 5_000
MOST_BLOCKS = 1_000
MOST_MUTES = 1_000
MOST_TEXT = 5_000
MOST_COMMENT = 2_000
MOST_MENTIONS = 10
A_MINUTE = {"posts": 30, "photos": 10, "comments": 60, "circles": 120}
PROFILE = {"about": 500, "place": 100, "link": 500}
# Fields of each type of post: the longest text, and whether it must be there.
DETAILS: dict[str, dict[str, tuple[int, bool]]] = {
    "status": {"text": (MOST_TEXT, True)},
    "photo": {"text": (MOST_TEXT, False), "file": (200, True), "alt": (200, False)},
    "link": {"text": (MOST_TEXT, False), "url": (2_000, True)},
    "checkin": {"text": (MOST_TEXT, False), "place": (100, True)},
}
MENTION = re.compile(r"(?<![\w@])@([a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)")
MOST_HANDLE = 32
# Without a width of their own: emoji are made of several with the one, names in some scripts have the other.
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))
BLANKS = "\u115f\u1160\u2800\u3164\uffa0"  # letters to Unicode, and nothing to a reader


# ---- who may see what ----


@dataclass(frozen=True)
class Relation:
    """What somebody is to a viewer now.

    `my_circles`: the viewer's circles that they are in, and `follows_since` since when in any. `in_circles`: those of
    their circles that the viewer is in, each since when, and `in_since` since when in any. `blocked`: one of the two
    has blocked the other.
    """

    here: bool = False
    name: str | None = None
    handle: str | None = None
    my_circles: tuple[str, ...] = ()
    follows_since: datetime | None = None
    in_circles: Mapping[str, datetime] = field(default_factory=dict)
    in_since: datetime | None = None
    blocked: bool = False

    @property
    def shows(self) -> bool:
        """Whether anything of theirs is shown to the viewer at all."""
        return self.here and not self.blocked

    @property
    def may_reach(self) -> bool:
        """Whether anything of theirs can be news for the viewer."""
        return self.shows and (self.follows_since is not None or self.in_since is not None)


STRANGER = Relation()


def relation_of(user: Mapping[str, Any] | None, edge: Mapping[str, Any] | None) -> Relation:
    """Somebody's user document and the viewer's edge to them, as one."""
    if user is None or user.get("left_at"):
        return STRANGER
    edge = edge or {}
    return Relation(
        here=True,
        name=user["name"],
        handle=user["handle"],
        my_circles=tuple(one["name"] for one in edge.get("circles", ())),
        follows_since=edge.get("circled_at"),
        in_circles={one["name"]: one["at"] for one in edge.get("in_circles", ())},
        in_since=edge.get("follower_at"),
        blocked=bool(edge.get("blocked_at") or edge.get("blocked_by_at")),
    )


def may_see(viewer: str | None, post: Mapping[str, Any], author: Relation) -> bool:
    """Whether the viewer, None for a visitor, may see the post now."""
    if not author.shows:
        return False
    if PUBLIC in post["circles"] or (viewer is not None and viewer in (post["by"], post["to"])):
        return True
    if CIRCLES in post["circles"]:
        return author.in_since is not None
    return any(name in author.in_circles for name in post["circles"])


def audiences_with(author: Relation) -> list[str]:
    """Those audiences of an author's that the viewer is in."""
    return [PUBLIC] if author.in_since is None else [PUBLIC, CIRCLES, *author.in_circles]


def is_news(viewer: str, post: Mapping[str, Any], author: Relation) -> bool:
    """Whether the post is news for the viewer: they may see it, and it was made after it could first reach them.

    That is since they follow the author, for a public post; else since the author has them in such a circle.
    """
    if post["by"] == viewer or not author.shows:
        return False
    if PUBLIC in post["circles"]:
        since = [author.follows_since]
    elif CIRCLES in post["circles"]:
        since = [author.in_since]
    else:
        since = [author.in_circles.get(name) for name in post["circles"]]
    return any(at is not None and at <= post["ts"] for at in since)


def audience_of(post: Mapping[str, Any]) -> str:
    """In one word that gives away no circle's name."""
    if PUBLIC in post["circles"]:
        return "public"
    return "circles" if CIRCLES in post["circles"] else "limited"


# ---- input ----


def name(value: Any, field: str = "name") -> str:
    """A person's name: something that can be seen, on one line."""
    return _visible(value, field, MOST_NAME)


def circle(value: Any, field: str = "circle") -> str:
    """A circle's name. Names of the form `*...*` are ours."""
    found = _visible(value, field, MOST_CIRCLE_NAME)
    if found.startswith("*"):
        raise Invalid(f"{field} must not begin with *", field=field)
    return found


def _visible(value: Any, field: str, most: int) -> str:
    checks.text(value, field, least=1, most=most)
    seen = value.translate(JOINERS)
    if not seen.strip(" " + BLANKS) or not seen.isprintable():
        raise Invalid(f"{field} must be visible characters on one line", field=field)
    return str(value.strip())


def audience(value: Any) -> list[str]:
    """Whom a post is for: everybody, everybody in the author's circles, or some of those by name."""
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(f"circles must be a list: {PUBLIC}, {CIRCLES}, or names of circles", field="circles")
    if len(value) > MOST_CIRCLES:
        raise Invalid(f"circles must be at most {MOST_CIRCLES}", field="circles", limit=MOST_CIRCLES)
    for wide in (PUBLIC, CIRCLES):
        if wide in value:
            if len(value) > 1:
                raise Invalid(f"{wide} stands alone", field="circles")
            return [wide]
    return sorted({circle(one, "circles") for one in value})


def known_circles(wanted: Iterable[str], user: Mapping[str, Any]) -> None:
    """Raises: `Invalid` where a post is for a circle that its author does not have."""
    mine = {PUBLIC, CIRCLES, *(one["name"] for one in user["circles"])}
    for one in wanted:
        if one not in mine:
            raise Invalid(f"you have no circle {one!r}", field="circles")


def detail(kind: Any, value: Any) -> Document:
    """What a post of that type says."""
    if not isinstance(kind, str) or kind not in DETAILS:
        raise Invalid(f"type must be one of {', '.join(DETAILS)}", field="type")
    fields = DETAILS[kind]
    given = _fields(value, "detail", fields)
    for one, (most, needed) in fields.items():
        if one in given or needed:
            checks.text(given.get(one, ""), f"detail.{one}", least=1 if needed else 0, most=most)
        if needed and not given[one].strip():
            raise Invalid(f"detail.{one} must not be blank", field=f"detail.{one}")
    if kind == "link":
        web_address(given["url"], "detail.url")
    return given


def profile(value: Any) -> dict[str, str]:
    """What a member tells of themselves."""
    given = _fields(value, "profile", PROFILE)
    for one, text in given.items():
        checks.text(text, f"profile.{one}", most=PROFILE[one])
    if given.get("link"):
        web_address(given["link"], "profile.link")
    return given


def _fields(value: Any, field: str, known: Iterable[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{field} must be an object", field=field)
    for one in value:
        if one not in known:
            raise Invalid(f"{field} has no field {str(one)[:50]!r}", field=field)
    return dict(value)


def web_address(value: str, field: str) -> str:
    """An address that a reader may be sent to: of the web, and not of a script."""
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, value)):
        raise Invalid(f"{field} must be an address that begins with http:// or https://", field=field)
    return value


def handles_in(text: str) -> list[str]:
    """Who is mentioned, each once, in their order."""
    return list(dict.fromkeys(MENTION.findall(text.lower())))[:MOST_MENTIONS]


def handle_for(name: str) -> str:
    """What is left of a name in plain letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MOST_HANDLE].strip("-") or "member"


# ---- limits ----


def counted(user: Mapping[str, Any], kind: str, now: datetime) -> Document:
    """What to set on a user document to count one more of those in `A_MINUTE`.

    Raises: `TooFast`.
    """
    rate = user.get("rates", {}).get(kind)
    minute = timedelta(minutes=1)
    if rate is None or not rate["from"] <= now < rate["from"] + minute:
        return {f"rates.{kind}": {"from": now, "count": 1}}
    most = A_MINUTE[kind]
    if rate["count"] >= most:
        wait = max(1, round((rate["from"] + minute - now).total_seconds()))
        raise TooFast(f"at most {most} {kind} a minute", limit=most, retry_after_seconds=wait)
    return {f"rates.{kind}.count": rate["count"] + 1}


def at_most(count: int, limit: int, what: str) -> None:
    """Raises: `SocialLimit` where there are as many already."""
    if count >= limit:
        raise SocialLimit(f"at most {limit} {what}", limit=limit)
