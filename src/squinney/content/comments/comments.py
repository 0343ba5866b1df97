"""`Comments`: one interface over three ways to store a discussion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from squinney import checks
from squinney.clock import Clock
from squinney.content import markup
from squinney.content.comments import conversion, discussions, queries
from squinney.content.comments.discussions import CAPABILITIES, DiscussedNode, Order, Storage, precise_now
from squinney.content.comments.documents import MOST_COMMENT, Comment, Strategy
from squinney.content.comments.embedded import Embedded
from squinney.content.comments.paged import Paged
from squinney.content.comments.separate import Separate
from squinney.content.documents import Author
from squinney.content.errors import UnknownComment, UnknownNode
from squinney.content.nodes import queries as node_queries
from squinney.content.nodes import rules
from squinney.content.nodes.documents import NODES, Node
from squinney.errors import Forbidden, Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Stale, Transactions, Tries

T = TypeVar("T")
WAIT_SECONDS = 20
MOST_DISCUSSION = 1_000
ERASED: Author = {"_id": "", "name": "deleted"}


class Comments:
    """Comments on nodes.

    `strategy` is where the comments of a node without any go; a node that has a discussion keeps its own until
    `convert`. What a strategy cannot do it refuses with `StrategyCannot`: see `CAPABILITIES`. A node given as the
    document saves a query; it should have been read in the last few minutes.
    """

    def __init__(
        self,
        db: Db,
        strategy: Strategy = "separate",
        *,
        transactions: Transactions | None = None,
        clock: Clock = precise_now,
    ) -> None:
        if strategy not in CAPABILITIES:
            raise Invalid(f"strategy must be one of {', '.join(CAPABILITIES)}", field="strategy")
        self._db = pinned(db)
        self._strategy = strategy
        self._clock = clock
        runs = transactions or Transactions(db)
        self._transactions = runs
        self._storages: dict[Strategy, Storage] = {
            "separate": Separate(self._db, runs),
            "embedded": Embedded(self._db),
            "paged": Paged(self._db, runs),
        }

    # ---- write ----

    @operation(30)
    def post(
        self,
        node: Node | str,
        author: Author,
        text: str,
        reply_to: str | None = None,
        *,
        key: str | Key | None = None,
    ) -> Comment:
        """Add a comment, or a reply to the comment with the slug `reply_to`; once per `key`.

        Atomic: embedded: one update. Else the comment, the node's guard and count, and the count of the comment that
        it answers are one transaction.
        After a crash: nothing, or in two-phase mode a stub that `recover-transactions` removes.
        Raises: `Invalid`, `UnknownNode`, `UnknownComment`, `Conflict` for a reply to a deleted comment,
        `KeyReused` where the key came with other words; `StrategyCannot`, `LimitReached`, `DiscussionFull`, `Busy`.
        """
        who = rules.checked_author(author)
        said = checked_text(text)
        once = Key.of(key)
        own = discussions.own_slug(rules.id_of(node), once) if once else None
        tried = False

        def attempt(discussed: DiscussedNode, storage: Storage) -> Comment:
            nonlocal tried
            parent = self._parent(discussed, storage, reply_to) if reply_to is not None else None
            comment = discussions.new_comment(discussed.node_id, who, said, parent, self._clock(), own)
            # The record of a key stays behind when a discussion is converted, and ends after a week: the slug does not.
            if own is not None and (tried or discussed.discussion["epoch"] > 1):
                if (taken := storage.get(discussed, comment["slug"])) and taken["author"]["_id"] == who["_id"]:
                    return discussions.same(taken, comment)
                if taken:
                    comment = discussions.new_comment(discussed.node_id, who, said, parent, self._clock())
            tried = True
            return storage.post(discussed, comment, parent, once)

        return self._where_stored(node, attempt, begin=True)

    def _parent(self, discussed: DiscussedNode, storage: Storage, slug: str) -> Comment:
        discussions.require(discussed.discussion["strategy"], "replies")
        parent = self._found(storage.get(discussed, discussions.checked_slug(slug)), slug)
        if parent.get("deleted"):
            raise discussions.unanswerable(dict(parent))
        return parent

    @operation(30)
    def edit(self, node: Node | str, slug: str, text: str, *, by: str | None = None) -> Comment:
        """Change a comment's text; with `by`, only if that is its author's id.

        Atomic: as `post`; the comment is found by its version, and the newest edit wins.
        After a crash: as `post`.
        Raises: `UnknownComment`, also for a deleted one; `Forbidden`, `Invalid`, `DiscussionFull`.
        """
        said = checked_text(text)

        def attempt(discussed: DiscussedNode, storage: Storage) -> Comment:
            comment = self._own(storage.get(discussed, discussions.checked_slug(slug)), slug, by)
            fields = {"text": said, "edited": checks.time(self._clock(), "clock")}
            storage.change(discussed, comment, fields)
            return cast(Comment, {**comment, **fields, "version": comment["version"] + 1})

        return self._where_stored(node, attempt)

    @operation(30)
    def delete(self, node: Node | str, slug: str, *, by: str | None = None) -> None:
        """Delete a comment. One with replies keeps its place, without its text and author.

        Atomic: as `post`.
        After a crash: as `post`.
        Raises: `UnknownComment`, also for one deleted before; `Forbidden`, `Invalid`.
        """

        def attempt(discussed: DiscussedNode, storage: Storage) -> None:
            comment = self._own(storage.get(discussed, discussions.checked_slug(slug)), slug, by)
            kept_from_a_thread = discussed.discussion["strategy"] == "paged" and comment["parent_id"]
            if comment["num_replies"] or kept_from_a_thread:
                nobodys = {"text": "", "author": ERASED, "deleted": checks.time(self._clock(), "clock")}
                storage.change(discussed, comment, nobodys, counted=-1)
            else:
                storage.remove(discussed, comment)

        self._where_stored(node, attempt)

    def _own(self, comment: Comment | None, slug: str, by: str | None) -> Comment:
        found = self._found(comment, slug)
        if found.get("deleted"):
            raise UnknownComment(f"the comment {slug} was deleted", slug=slug)
        if by is not None and found["author"]["_id"] != by:
            raise Forbidden("this comment is somebody else's")
        return found

    # ---- read ----

    @operation(reads_only=True)
    def page(
        self,
        node: Node | str,
        cursor: str | None = None,
        limit: int = 50,
        order: Order = "chronological",
        *,
        at: str | None = None,
    ) -> Page[Comment]:
        """Some comments, oldest first or by threads; `at` a comment's slug gives the page that shows it.

        One query however long the discussion (two with `at`, one more where the node is given by its id).

        Raises: `StrategyCannot`, `UnknownNode`, `UnknownComment`, `Invalid`.
        """
        checks.integer(limit, "limit", least=1, most=200)
        if order not in discussions.SORTS:
            raise Invalid("order must be chronological or threaded", field="order")

        def attempt(discussed: DiscussedNode, storage: Storage) -> Page[Comment]:
            discussions.require(discussed.discussion["strategy"], order)
            first = self._found(storage.get(discussed, discussions.checked_slug(at)), at) if at is not None else None
            return storage.page(discussed, cursor, limit, order, first)

        return self._where_stored(node, attempt, nothing=Page([]))

    @operation(reads_only=True)
    def page_showing(
        self, node: Node | str, slug: str, limit: int = 50, order: Order = "chronological"
    ) -> Page[Comment]:
        """The page on which a comment is best read: with all others, or with its thread, or with what it answers.

        It begins with the first comment where all fit on one page; else with the first of its thread from where it
        still fits; at the latest with the comment itself. A few queries however long the discussion.

        Raises: `StrategyCannot`, `UnknownNode`, `UnknownComment`, `Invalid`.
        """
        self.get(node, slug)
        for start in self._starts(node, slug, limit, order):
            try:
                found = self.page(node, None, limit, order, at=start)
            except UnknownComment:  # what it answers may be gone
                continue
            if any(comment["slug"] == slug for comment in found.items):
                return found
        raise UnknownComment(f"there is no comment {slug}", slug=slug)

    def _starts(self, node: Node | str, slug: str, limit: int, order: Order) -> list[str | None]:
        """Where a page that shows the comment may begin, the best first."""
        parts = slug.split("/") if order == "threaded" else [slug]
        threads = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        return list(dict.fromkeys([*([None] if self.count(node) <= limit else []), threads[0], *threads[-2:]]))

    @operation(reads_only=True)
    def get(self, node: Node | str, slug: str) -> Comment:
        """One comment, by its direct link.

        Raises: `UnknownComment`, `UnknownNode`, `Invalid`.
        """
        wanted = discussions.checked_slug(slug)
        return self._where_stored(node, lambda discussed, storage: self._found(storage.get(discussed, wanted), slug))

    @operation(reads_only=True)
    def discussion(self, node: Node | str, slug: str) -> list[Comment]:
        """A comment and all below it, by threads; at most a thousand.

        Raises: `StrategyCannot`, `UnknownComment`, `UnknownNode`, `Invalid`.
        """
        wanted = discussions.checked_slug(slug)

        def attempt(discussed: DiscussedNode, storage: Storage) -> list[Comment]:
            discussions.require(discussed.discussion["strategy"], "discussion")
            return storage.below(discussed, self._found(storage.get(discussed, wanted), slug), MOST_DISCUSSION)

        return self._where_stored(node, attempt, nothing=[])

    @operation(reads_only=True)
    def count(self, node: Node | str) -> int:
        """How many comments the node has, without deleted ones.

        Raises: `UnknownNode`.
        """
        return int(self._metadata(rules.id_of(node)).get("num_comments", 0))

    @operation(reads_only=True)
    def by_author(self, author_id: str, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """A person's comments on all nodes whose discussion is separate, newest first.

        A page can be shorter than the limit where a conversion has left comments behind.

        Raises: `StrategyCannot` where this instance's strategy is another; `Invalid`.
        """
        discussions.require(self._strategy, "by_author")
        checks.identifier(author_id, "author")
        found = page(self._db, queries.BY_AUTHOR, cursor=cursor, limit=limit, author_id=author_id)
        epochs = conversion.epochs_of(self._db, {comment["node_id"] for comment in found.items})
        live = [comment for comment in found.items if comment["epoch"] == epochs.get(comment["node_id"])]
        return Page([discussions.plain(comment) for comment in live], found.next)

    @operation(reads_only=True)
    def strategy_of(self, node: Node | str) -> Strategy:
        """Where the node's comments are, or would go.

        Raises: `UnknownNode`.
        """
        discussion = self._metadata(rules.id_of(node)).get("discussion")
        return cast(Strategy, discussion["strategy"]) if discussion else self._strategy

    # ---- convert ----

    @operation(300)
    def convert(self, node: Node | str, to: Strategy) -> Strategy:
        """Move a discussion to another strategy while people go on posting: they wait only for the last moment.

        Comments are copied under the next epoch, invisible; then the discussion is frozen, what changed meanwhile is
        copied, and the node switches.

        Atomic: the update of the node's strategy and epoch, which every write of a comment requires.
        After a crash: copies nobody sees, and perhaps a freeze that ends by itself after a minute; `sweep-content`
        removes the copies, and so does the next `convert`.
        Raises: `Busy` where another conversion is at work; `DiscussionFull` where the comments do not fit in the node;
        `UnknownNode`, `Invalid`.
        """
        if to not in CAPABILITIES:
            raise Invalid(f"to must be one of {', '.join(CAPABILITIES)}", field="to")
        discussed = self._discussed(rules.id_of(node), begin=True)
        if discussed is not None and discussed.discussion["strategy"] != to:
            source = self._storages[discussed.discussion["strategy"]]
            conversion.convert(self._db, self._transactions, discussed, source, to)
        return to

    # ---- inside ----

    def _where_stored(
        self,
        node: Node | str,
        attempt: Callable[[DiscussedNode, Storage], T],
        *,
        begin: bool = False,
        nothing: T | None = None,
    ) -> T:
        """Try where the node says its comments are; where that has changed, look again.

        A node without comments gives `nothing`, if that is given.
        """
        tries = Tries(WAIT_SECONDS, what="the discussion")
        node_id = rules.id_of(node)
        discussed = _as_discussed(node) or self._discussed(node_id, begin=begin)
        while True:
            if discussed is None:
                if nothing is not None:
                    return nothing
                raise UnknownComment("the node has no comments")
            try:
                return attempt(discussed, self._storages[discussed.discussion["strategy"]])
            except Stale as stale:
                tries.pause(stale)
                discussed = self._discussed(node_id, begin=begin)
            except UnknownComment:  # looked for where the discussion was a moment ago?
                before, discussed = discussed, self._discussed(node_id, begin=begin)
                if discussed is None or (discussed.key, discussed.route) == (before.key, before.route):
                    raise

    def _discussed(self, node_id: str, *, begin: bool = False) -> DiscussedNode | None:
        metadata = self._metadata(node_id)
        if "discussion" not in metadata:
            if not begin:
                return None
            metadata["discussion"] = self._begin(node_id)
        if frozen := metadata["discussion"].get("frozen"):
            conversion.thaw_if_expired(self._db, node_id, frozen)
        return _as_discussed({"_id": node_id, "metadata": metadata})

    def _begin(self, node_id: str) -> Document:
        """The first comment settles the strategy: one update, which only one of several first comments makes."""
        fresh = {"strategy": self._strategy, "epoch": 1, "claimed": 1}
        self._db[NODES].update_one(
            {"_id": node_id, "metadata.discussion": None}, {"$set": {"metadata.discussion": fresh}}
        )
        return cast(Document, self._metadata(node_id)["discussion"])

    def _metadata(self, node_id: str) -> Document:
        names = ("parent_id", "slug", "discussion", "num_comments", "num_comment_pages")
        fields = {f"metadata.{name}": 1 for name in names}
        found = self._db[NODES].find_one(node_queries.NODE(node_id=node_id), fields)
        if found is None:
            raise UnknownNode(f"there is no node {node_id}", node_id=node_id)
        return cast(Document, found["metadata"])

    def _found(self, comment: Comment | None, slug: str | None) -> Comment:
        if comment is None:
            raise UnknownComment(f"there is no comment {slug}", slug=slug)
        return comment


def _as_discussed(node: Any) -> DiscussedNode | None:
    """What the node says of its discussion; nothing where it has none, or only its id is given."""
    metadata = {} if isinstance(node, str) else node.get("metadata", {})
    if "discussion" not in metadata:
        return None
    pages = metadata.get("num_comment_pages", 0)
    return DiscussedNode(node["_id"], rules.route(metadata), metadata["discussion"], pages)


def checked_text(text: Any) -> str:
    """A comment's text: something to read, of at most ten thousand characters."""
    said = checks.text(text, "text", least=1, most=MOST_COMMENT, pattern=r"(?s).*\S.*")
    return markup.checked(said, "text", markup.COMMENT)
