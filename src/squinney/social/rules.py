"""The network's pure decisions: who may see a post, which posts are news for whom, and which input is valid."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from squinney import checks
from squinney.errors import Invalid
from squinney.mongo.schema import Document
from squinney.patterns import per_minute
from squinney.social.documents import CIRCLES, PUBLIC
from squinney.social.errors import SocialLimit

MAX_NAME_LENGTH = 100
MAX_CIRCLE_NAME_LENGTH = 50
MAX_CIRCLES = 100
MAX_CIRCLED = 5_000
MAX_BLOCKS = 1_000
MAX_MUTES = 1_000
MAX_TEXT_LENGTH = 5_000
MAX_COMMENT_LENGTH = 2_000
MAX_MENTIONS = 10
MAX_ITEMS = 100  # of a page
MAX_OLDER_POSTS = 20  # that come into the news when somebody is followed
MAX_PER_MINUTE = {"posts": 30, "photos": 10, "comments": 60, "circles": 120}
PROFILE = {"about": 500, "place": 100, "link": 500}
# The fields of each type of post: the maximum length, and whether the field is required.
DETAILS: dict[str, dict[str, tuple[int, bool]]] = {
    "status": {"text": (MAX_TEXT_LENGTH, True)},
    "photo": {"text": (MAX_TEXT_LENGTH, False), "file": (200, True), "alt": (200, False)},
    "link": {"text": (MAX_TEXT_LENGTH, False), "url": (2_000, True)},
    "checkin": {"text": (MAX_TEXT_LENGTH, False), "place": (100, True)},
}
MENTION = re.compile(r"(?<![\w@])@([a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?)")
MAX_HANDLE_LENGTH = 32
# Zero-width joiners are valid inside a name: emoji sequences use one of them, some scripts the other.
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))
BLANKS = "\u115f\u1160\u2800\u3164\uffa0"  # Unicode counts these as letters or symbols, but they render as blanks


# ---- who may see what ----


@dataclass(frozen=True)
class Relation:
    """How another member (the author) relates to a viewer now.

    `my_circles` are the viewer's circles that contain the author, and `follows_since` is when the first of these began.
    `in_circles` are the author's circles that contain the viewer, each with its start, and `in_circles_since` is when
    the first of these began. `is_blocked` is true if the viewer has blocked the author. An author who has blocked the
    viewer is a `STRANGER`, like somebody who does not exist.
    """

    is_member: bool = False
    name: str | None = None
    handle: str | None = None
    my_circles: tuple[str, ...] = ()
    follows_since: datetime | None = None
    in_circles: Mapping[str, datetime] = field(default_factory=dict)
    in_circles_since: datetime | None = None
    is_blocked: bool = False

    @property
    def is_visible(self) -> bool:
        """Whether the viewer may see this member at all."""
        # guard: a block hides both members
        return self.is_member and not self.is_blocked

    @property
    def can_be_news(self) -> bool:
        """Whether any post of this member can be news for the viewer."""
        return self.is_visible and (self.follows_since is not None or self.in_circles_since is not None)


STRANGER = Relation()


def relation_of(user: Mapping[str, Any] | None, edge: Mapping[str, Any] | None) -> Relation:
    """Return the relation that a member's user document and the viewer's edge to that member describe."""
    # guard: members who left are not shown
    if user is None or user.get("left_at"):
        return STRANGER
    edge = edge or {}
    # guard: who blocked the viewer looks like a stranger
    if is_hidden(edge):
        return STRANGER
    return Relation(
        is_member=True,
        name=user["name"],
        handle=user["handle"],
        my_circles=tuple(circle["name"] for circle in edge.get("circles", ())),
        follows_since=edge.get("circled_at"),
        in_circles={circle["name"]: circle["at"] for circle in edge.get("in_circles", ())},
        in_circles_since=edge.get("follower_at"),
        is_blocked="blocked_at" in edge,
    )


def is_hidden(edge: Mapping[str, Any]) -> bool:
    """Return whether the other member must look to the edge's owner like somebody who does not exist.

    Who blocked first decides: whoever blocks back does not learn of the other's block, neither from what changes by
    blocking, nor from what does not.
    """
    by_other, by_owner = edge.get("blocked_by_at"), edge.get("blocked_at")
    return by_other is not None and (by_owner is None or by_owner >= by_other)


def may_see(viewer: str | None, post: Mapping[str, Any], author: Relation) -> bool:
    """Return whether the viewer may see the post now. `viewer` None is a visitor who is not a member."""
    if not author.is_visible:
        return False
    # guard: a visitor does not match a post without an addressee
    if PUBLIC in post["circles"] or (viewer is not None and viewer in (post["by"], post["to"])):
        return True
    if CIRCLES in post["circles"]:
        # guard: a post for all circles is only visible to people in one of them
        return author.in_circles_since is not None
    # guard: a post is only visible in its circles
    return any(name in author.in_circles for name in post["circles"])


def visible_audiences(author: Relation) -> list[str]:
    """Return the audiences of the author's posts that include the viewer."""
    return [PUBLIC] if author.in_circles_since is None else [PUBLIC, CIRCLES, *author.in_circles]


def is_news(viewer: str, post: Mapping[str, Any], author: Relation, followed_at: datetime | None = None) -> bool:
    """Return whether the post belongs in the viewer's news: the relation that brings it must be older than the post.

    For a public post this relation is that the viewer follows the author. For all other posts, it is that the author
    has the viewer in one of the addressed circles. An older post is news if the follow that still holds brought it:
    `followed_at` is when that follow began.
    """
    if post["by"] == viewer or not author.is_visible:
        return False
    # guard: a follow brings older posts only while it holds
    if is_from_present_follow(followed_at, author.follows_since):
        # guard: older posts are shown to those who may see them now
        return may_see(viewer, post, author)
    if PUBLIC in post["circles"]:
        since = [author.follows_since]
    elif CIRCLES in post["circles"]:
        since = [author.in_circles_since]
    else:
        since = [author.in_circles.get(name) for name in post["circles"]]
    # guard: news contain no posts from before the current relation
    return any(at is not None and at <= post["ts"] for at in since)


def is_from_present_follow(followed_at: datetime | None, follows_since: datetime | None) -> bool:
    """Return whether a news entry that a follow brought is from the follow that still holds."""
    return followed_at is not None and follows_since is not None and followed_at >= follows_since


def audience_label(post: Mapping[str, Any]) -> str:
    """Return the kind of audience in one word, without revealing the names of circles."""
    if PUBLIC in post["circles"]:
        return "public"
    return "circles" if CIRCLES in post["circles"] else "limited"


# ---- input ----


def check_name(value: Any) -> str:
    """Return the member's name, stripped; it must be visible characters on one line."""
    return _visible(value, "name", MAX_NAME_LENGTH)


def check_circle(value: Any, field: str = "circle") -> str:
    """Return the circle's name, stripped. Names that begin with `*` are reserved for audiences."""
    name = _visible(value, field, MAX_CIRCLE_NAME_LENGTH)
    if name.startswith("*"):
        raise Invalid(f"{field} must not begin with *", field=field)
    return name


def _visible(value: Any, field: str, max_length: int) -> str:
    checks.text(value, field, min_length=1, max_length=max_length)
    seen = value.translate(JOINERS)
    # guard: a name is printable
    # guard: a name has more than blank characters
    if not seen.strip(" " + BLANKS) or not seen.isprintable():
        raise Invalid(f"{field} must be visible characters on one line", field=field)
    return str(value.strip())


def check_audience(value: Any) -> list[str]:
    """Return a post's audience: `[PUBLIC]`, `[CIRCLES]`, or the sorted names of circles."""
    if not isinstance(value, list | tuple) or not value:
        raise Invalid(f"circles must be a list: {PUBLIC}, {CIRCLES}, or names of circles", field="circles")
    if len(value) > MAX_CIRCLES:
        raise Invalid(f"circles must be at most {MAX_CIRCLES}", field="circles", limit=MAX_CIRCLES)
    for wide in (PUBLIC, CIRCLES):
        if wide in value:
            if len(value) > 1:
                raise Invalid(f"circles must contain nothing else if they contain {wide}", field="circles")
            return [wide]
    return sorted({check_circle(name, "circles") for name in value})


def check_own_circles(wanted: Iterable[str], user: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless the author has each circle that a post is addressed to."""
    mine = {PUBLIC, CIRCLES, *(circle["name"] for circle in user["circles"])}
    for name in wanted:
        # guard: a post is addressed to existing circles
        if name not in mine:
            raise Invalid(f"you have no circle {name!r}", field="circles")


def check_detail(kind: Any, value: Any) -> Document:
    """Return the content of a post of type `kind`, with the fields that `DETAILS` lists for this type."""
    if not isinstance(kind, str) or kind not in DETAILS:
        raise Invalid(f"type must be one of {', '.join(DETAILS)}", field="type")
    fields = DETAILS[kind]
    given = _fields(value, "detail", fields)
    for name, (max_length, needed) in fields.items():
        if name in given or needed:
            checks.text(given.get(name, ""), f"detail.{name}", min_length=1 if needed else 0, max_length=max_length)
        if needed and not given[name].strip():
            raise Invalid(f"detail.{name} must not be blank", field=f"detail.{name}")
    if kind == "link":
        _check_web_address(given["url"], "detail.url")
    return given


def check_page_size(limit: Any) -> int:
    """Return `limit`, or raise `Invalid` unless it is an integer from 1 to `MAX_ITEMS`."""
    return checks.integer(limit, "limit", minimum=1, maximum=MAX_ITEMS)


def check_profile(value: Any) -> dict[str, str]:
    """Return the given fields of a profile; each is a text, and `link` is a web address."""
    given = _fields(value, "profile", PROFILE)
    for name, text in given.items():
        checks.text(text, f"profile.{name}", max_length=PROFILE[name])
    if given.get("link"):
        _check_web_address(given["link"], "profile.link")
    return given


def _fields(value: Any, field: str, known: Iterable[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{field} must be an object", field=field)
    for name in value:
        if name not in known:
            raise Invalid(f"{field} has no field {str(name)[:50]!r}", field=field)
    return dict(value)


def _check_web_address(value: str, field: str) -> None:
    """Raise `Invalid` unless the value is safe as a link: `http` or `https`, never `javascript` or another scheme."""
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or any(map(str.isspace, value)):
        raise Invalid(f"{field} must be an address that begins with http:// or https://", field=field)


def handles_in(text: str) -> list[str]:
    """Return the handles that the text mentions, each once, in order of appearance, at most `MAX_MENTIONS`."""
    return list(dict.fromkeys(MENTION.findall(text.lower())))[:MAX_MENTIONS]


def handle_for(name: str) -> str:
    """Return the name reduced to ASCII letters, digits and hyphens; `member` if nothing remains."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_HANDLE_LENGTH].strip("-") or "member"


# ---- limits ----


def rate_update(user: Mapping[str, Any], kind: str, now: datetime) -> Document:
    """Return the fields to `$set` on a user document to count one more action of this kind of `MAX_PER_MINUTE`.

    Raises: `TooFast`.
    """
    before, limit = user.get("rates", {}).get(kind), MAX_PER_MINUTE[kind]
    count = per_minute.counted(before, limit=limit, now=now, says=lambda wait: f"at most {limit} {kind} a minute")
    return {f"rates.{kind}": count}


def check_limit(count: int, limit: int, what: str) -> None:
    """Raise `SocialLimit` if `count` has reached the limit."""
    if count >= limit:
        raise SocialLimit(f"at most {limit} {what}", limit=limit)
