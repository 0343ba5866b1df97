"""What the three storage strategies share: the discussed node, the slugs of comments, and the guards of writes."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from squinney import checks
from squinney.content.comments.documents import MAX_COMMENT_DEPTH
from squinney.content.documents import Author, Comment, Discussion, Strategy
from squinney.content.errors import StrategyCannot, UnknownComment
from squinney.content.nodes.documents import NODES
from squinney.errors import Conflict, LimitReached, SquinneyError
from squinney.mongo.schema import Document
from squinney.patterns.ids import ALPHABET
from squinney.transactions import CHECKS_FIELD, Key, KeyReused, Plan, Stale, Step, Transactions

Order = Literal["chronological", "threaded"]
STAMP = "%Y.%m.%d.%H.%M.%S.%f"
SLUG_LETTERS = 8
SLUG = r"[0-9a-z]{1,16}(?:/[0-9a-z]{1,16})*"
SORTS: dict[str, str] = {"chronological": "_id", "threaded": "full_slug"}

# The operations that each strategy supports; others raise `StrategyCannot`. `docs/content.md` shows this table.
CAPABILITIES: dict[Strategy, frozenset[str]] = {
    "separate": frozenset({"chronological", "threaded", "replies", "discussion", "by_author"}),
    "embedded": frozenset({"chronological", "threaded", "replies", "discussion"}),
    "paged": frozenset({"chronological"}),
}


@dataclass(frozen=True)
class DiscussedNode:
    """What comments need to know of their subject: its id and shard key, its discussion, and its number of pages.

    A node is one kind of subject, and `collection` is where it is; another kind are subjects of the caller's own.
    """

    node_id: str
    route: Mapping[str, Any]
    discussion: Discussion
    pages: int = 0
    collection: str = NODES

    @property
    def filter(self) -> Document:
        """The filter that finds the node on one shard."""
        return {"_id": self.node_id, **self.route}

    @property
    def epoch_key(self) -> Document:
        """The fields in every query for stored comments; comments of another epoch are leftovers of a conversion."""
        return {"node_id": self.node_id, "epoch": self.discussion["epoch"]}

    @property
    def guard(self) -> Document:
        """What every write of a comment requires of the node: the same epoch, and no freeze by a conversion."""
        # guard: no comment is written while the discussion is frozen
        # guard: a write requires the current epoch of the discussion
        return {"metadata.discussion.epoch": self.discussion["epoch"], "metadata.discussion.frozen": None}


def require(strategy: Strategy, what: str) -> None:
    """Require that the strategy supports an operation, or raise `StrategyCannot`."""
    if what not in CAPABILITIES[strategy]:
        raise strategy_cannot(strategy, what)


def strategy_cannot(strategy: Strategy, what: str) -> StrategyCannot:
    """Return the error for an operation that the strategy does not support; it names the strategies that do."""
    able = [name for name, can in CAPABILITIES.items() if what in can]
    return StrategyCannot(
        f"the strategy {strategy!r} does not support {what.replace('_', ' ')}; convert to {' or '.join(able)}",
        strategy=strategy,
        what=what,
    )


def precise_now() -> datetime:
    """Return the time with microseconds, which the ids of comments keep; MongoDB keeps only milliseconds."""
    return datetime.now(UTC)


def slug_segment(node_id: str, key: Key) -> str:
    """Return the last segment of the slug of a comment that is posted with this key.

    It identifies a repeated post even if the discussion was converted since. It cannot be guessed without the key.
    """
    digest = hashlib.blake2b(json.dumps([node_id, key.scope, key.text]).encode(), digest_size=SLUG_LETTERS).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest)


def new_comment(
    node_id: str, author: Author, text: str, parent: Comment | None, now: datetime, segment: str | None = None
) -> Comment:
    """Return a new comment, dated after its parent, or raise `LimitReached`. Without `segment`, its slug is random."""
    if parent is not None:
        if parent["slug"].count("/") + 2 > MAX_COMMENT_DEPTH:
            raise LimitReached(f"threads may be at most {MAX_COMMENT_DEPTH} levels deep", limit=MAX_COMMENT_DEPTH)
        now = max(now, _time_in_id(parent) + timedelta(microseconds=1))
    segment = segment or "".join(secrets.choice(ALPHABET) for _ in range(SLUG_LETTERS))
    comment_id = f"{now.strftime(STAMP)}:{segment}"
    return {
        "_id": comment_id,
        "node_id": node_id,
        "parent_id": parent["_id"] if parent else None,
        "slug": f"{parent['slug']}/{segment}" if parent else segment,
        "full_slug": f"{parent['full_slug']}/{comment_id}" if parent else comment_id,
        "posted": now.replace(microsecond=now.microsecond // 1000 * 1000),
        "author": author,
        "text": text,
        "num_replies": 0,
        "version": 1,
    }


def post_once(transactions: Transactions, plan: Plan, comment: Comment, key: Key | None) -> Comment:
    """Run the steps that store a comment; return the comment, or the one that was posted with this key before.

    A key's record is kept for a week. It has no text and author, so that erasing a person leaves no copy. They are
    taken from the repeated call, which must have the same text.
    """
    personal = {"text": comment["text"], "author": comment["author"]}
    record = {name: value for name, value in comment.items() if name not in personal}
    arguments = {"node": comment["node_id"], "text": comment["text"], "reply_to": comment["slug"].rpartition("/")[0]}
    outcome = transactions.run("post-comment", Plan(plan.steps, result=record), key=key, arguments=arguments)
    return cast(Comment, {**outcome.result, **personal})


def repeated(earlier: Comment, wanted: Mapping[str, Any]) -> Comment:
    """Return the comment posted with this key before, or raise `KeyReused` if the text or the parent is another."""
    if earlier["parent_id"] != wanted["parent_id"] or (earlier["version"] == 1 and earlier["text"] != wanted["text"]):
        raise KeyReused("this key was used with other arguments")
    return earlier


def _time_in_id(comment: Comment) -> datetime:
    return datetime.strptime(comment["_id"].split(":")[0], STAMP).replace(tzinfo=UTC)


def checked_comment_slug(slug: Any) -> str:
    """Return a comment's slug, or raise `Invalid`."""
    return checks.text(slug, "slug", min_length=1, max_length=200, pattern=SLUG)


def node_step(
    discussed: DiscussedNode, change: int, *, guard: Mapping[str, Any] | None = None, **increments: int
) -> Step:
    """Return the step that requires the discussion's epoch and adds `change` to the node's number of comments."""
    counters = {"metadata.num_comments": change, **{f"metadata.{name}": by for name, by in increments.items()}}
    nonzero = {name: by for name, by in counters.items() if by}
    return Step(
        discussed.collection,
        discussed.node_id,
        route=discussed.route,
        guard={**discussed.guard, **(guard or {})},
        update={"$inc": nonzero} if nonzero else None,
        refused=lambda _: Stale("the discussion was converted or its node was moved"),
    )


def reply_refused(parent: Document | None) -> SquinneyError:
    """Return the error for a reply to a comment that was removed (None) or deleted."""
    if parent is None:
        return UnknownComment("the comment to reply to does not exist any more")
    return Conflict("the comment to reply to was deleted")


STORAGE_FIELDS = ("epoch", "key", "page", CHECKS_FIELD)


def public(stored: Document) -> Comment:
    """Return the stored comment without internal fields; changes it in place, because a page has many comments."""
    for name in STORAGE_FIELDS:
        stored.pop(name, None)
    return cast(Comment, stored)
