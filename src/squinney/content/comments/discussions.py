"""What the three storage strategies share: where a discussion lives, how a comment is named, what guards a write."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, cast

from squinney import checks
from squinney.content.comments.documents import MOST_COMMENT_DEPTH, Comment, Discussion, Strategy
from squinney.content.documents import Author
from squinney.content.errors import StrategyCannot, UnknownComment
from squinney.content.nodes.documents import NODES
from squinney.errors import Conflict, LimitReached, SquinneyError
from squinney.mongo.schema import Document
from squinney.patterns.ids import ALPHABET
from squinney.patterns.paging import Page
from squinney.transactions import PROTOCOL_FIELDS, Key, KeyReused, Plan, Stale, Step, Transactions

Order = Literal["chronological", "threaded"]
STAMP = "%Y.%m.%d.%H.%M.%S.%f"
SLUG_LETTERS = 8
SLUG = r"[0-9a-z]{1,16}(?:/[0-9a-z]{1,16})*"
SORTS: dict[str, str] = {"chronological": "_id", "threaded": "full_slug"}

# What each strategy can do; the rest it refuses with `StrategyCannot`. `docs/content.md` shows this table.
CAPABILITIES: dict[Strategy, frozenset[str]] = {
    "separate": frozenset({"chronological", "threaded", "replies", "discussion", "by_author"}),
    "embedded": frozenset({"chronological", "threaded", "replies", "discussion"}),
    "paged": frozenset({"chronological"}),
}


@dataclass(frozen=True)
class DiscussedNode:
    """A node as its discussion sees it: where it is, and where its comments are."""

    node_id: str
    route: Mapping[str, Any]
    discussion: Discussion
    pages: int = 0

    @property
    def filter(self) -> Document:
        """Finds the node on its shard."""
        return {"_id": self.node_id, **self.route}

    @property
    def key(self) -> Document:
        """What every query for stored comments names; comments of another epoch are leftovers of a conversion."""
        return {"node_id": self.node_id, "epoch": self.discussion["epoch"]}

    @property
    def guard(self) -> Document:
        """What every write of a comment requires of the node: the same epoch, and no conversion about to switch."""
        return {"metadata.discussion.epoch": self.discussion["epoch"], "metadata.discussion.frozen": None}


class Storage(Protocol):
    """One strategy. Writes are guarded steps where several documents change, else one update."""

    def page(
        self, discussed: DiscussedNode, cursor: str | None, limit: int, order: Order, at: Comment | None
    ) -> Page[Comment]:
        """Some comments in an order, behind a cursor or from one comment on."""
        ...

    def get(self, discussed: DiscussedNode, slug: str) -> Comment | None:
        """One comment."""
        ...

    def below(self, discussed: DiscussedNode, comment: Comment, limit: int) -> list[Comment]:
        """A comment and what is below it, in threaded order."""
        ...

    def post(self, discussed: DiscussedNode, comment: Comment, parent: Comment | None, key: Key | None) -> Comment:
        """Add a comment.

        Raises: `Stale` where the discussion is not where it was.
        """
        ...

    def change(self, discussed: DiscussedNode, comment: Comment, fields: Document, *, counted: int = 0) -> None:
        """Set fields of a comment as it was read; `counted` is added to the number of comments.

        Raises: `Stale`.
        """
        ...

    def remove(self, discussed: DiscussedNode, comment: Comment) -> None:
        """Take a comment without replies out.

        Raises: `Stale`.
        """
        ...

    def all(self, discussed: DiscussedNode) -> Iterator[Comment]:
        """Every comment, in the order of time."""
        ...


def require(strategy: Strategy, what: str) -> None:
    """Raises: `StrategyCannot`, by name, where the strategy cannot do it."""
    if what not in CAPABILITIES[strategy]:
        raise cannot(strategy, what)


def cannot(strategy: Strategy, what: str) -> StrategyCannot:
    """The refusal, with the strategies that can."""
    able = [name for name, can in CAPABILITIES.items() if what in can]
    return StrategyCannot(
        f"a discussion stored {strategy!r} has no {what.replace('_', ' ')}; convert it to {' or '.join(able)}",
        strategy=strategy,
        what=what,
    )


def precise_now() -> datetime:
    """The time in microseconds: MongoDB keeps milliseconds, the names of comments keep all."""
    return datetime.now(UTC)


def own_slug(node_id: str, key: Key) -> str:
    """The slug of what is posted with that key: by it a repeat is known even where the discussion was converted since.

    Whoever does not know the key cannot guess it.
    """
    digest = hashlib.blake2b(json.dumps([node_id, key.scope, key.text]).encode(), digest_size=SLUG_LETTERS).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest)


def new_comment(
    node_id: str, author: Author, text: str, parent: Comment | None, now: datetime, own: str | None = None
) -> Comment:
    """A comment, with a fresh slug unless its own part is given, later than the one it answers.

    Raises: `LimitReached` where the thread would become too deep.
    """
    if parent is not None:
        if parent["slug"].count("/") + 2 > MOST_COMMENT_DEPTH:
            raise LimitReached(f"threads are at most {MOST_COMMENT_DEPTH} deep", limit=MOST_COMMENT_DEPTH)
        now = max(now, _stamped_at(parent) + timedelta(microseconds=1))
    own = own or "".join(secrets.choice(ALPHABET) for _ in range(SLUG_LETTERS))
    comment_id = f"{now.strftime(STAMP)}:{own}"
    return {
        "_id": comment_id,
        "node_id": node_id,
        "parent_id": parent["_id"] if parent else None,
        "slug": f"{parent['slug']}/{own}" if parent else own,
        "full_slug": f"{parent['full_slug']}/{comment_id}" if parent else comment_id,
        "posted": now.replace(microsecond=now.microsecond // 1000 * 1000),
        "author": author,
        "text": text,
        "num_replies": 0,
        "version": 1,
    }


def post_once(transactions: Transactions, steps: list[Step], comment: Comment, key: Key | None) -> Comment:
    """Run the steps that store a comment; returns it, or the one that was posted with that key before.

    A key's record stays for a week, without what was said and by whom, so that it can be erased. The words are the
    same, or the key would have been refused.
    """
    said = {"text": comment["text"], "author": comment["author"]}
    record = {name: value for name, value in comment.items() if name not in said}
    arguments = {"node": comment["node_id"], "text": comment["text"], "reply_to": comment["slug"].rpartition("/")[0]}
    outcome = transactions.run("post-comment", Plan(steps, result=record), key=key, arguments=arguments)
    return cast(Comment, {**outcome.result, **said})


def same(earlier: Comment, wanted: Mapping[str, Any]) -> Comment:
    """The comment posted with a key before.

    Raises: `KeyReused` where other words, or an answer to another comment, come with the key now.
    """
    if earlier["parent_id"] != wanted["parent_id"] or (earlier["version"] == 1 and earlier["text"] != wanted["text"]):
        raise KeyReused("this key was used with other arguments")
    return earlier


def _stamped_at(comment: Comment) -> datetime:
    return datetime.strptime(comment["_id"].split(":")[0], STAMP).replace(tzinfo=UTC)


def checked_slug(slug: Any) -> str:
    """A comment's slug."""
    return checks.text(slug, "slug", least=1, most=200, pattern=SLUG)


def node_step(
    discussed: DiscussedNode, change: int, *, guard: Mapping[str, Any] | None = None, **increments: int
) -> Step:
    """The node holds the discussion still, and counts its comments."""
    counters = {"metadata.num_comments": change, **{f"metadata.{name}": by for name, by in increments.items()}}
    nonzero = {name: by for name, by in counters.items() if by}
    return Step(
        NODES,
        discussed.node_id,
        route=discussed.route,
        guard={**discussed.guard, **(guard or {})},
        give={"$inc": nonzero} if nonzero else None,
        refused=lambda _: Stale("the discussion or its node has moved"),
    )


def unanswerable(found: Document | None) -> SquinneyError:
    """The refusal of a reply to a comment that is gone."""
    if found is None:
        return UnknownComment("the comment you answer is gone")
    return Conflict("the comment you answer was deleted")


HIDDEN = ("epoch", "key", "page", *PROTOCOL_FIELDS)


def plain(stored: Document) -> Comment:
    """The comment just read, without what only the storage needs: taken out of it, because a page has many."""
    for name in HIDDEN:
        stored.pop(name, None)
    return cast(Comment, stored)
