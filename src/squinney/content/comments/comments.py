"""`Comments`: one interface to three storage strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from squinney import checks
from squinney.clock import Clock
from squinney.content.comments import conversion, discussions, queries
from squinney.content.comments.discussions import CAPABILITIES, DiscussedNode, Order, precise_now
from squinney.content.comments.documents import MAX_COMMENT_LENGTH
from squinney.content.comments.embedded import Embedded
from squinney.content.comments.paged import Paged
from squinney.content.comments.separate import Separate
from squinney.content.comments.subjects import May, Subjects, discussed_in
from squinney.content.documents import Author, Comment, Strategy
from squinney.content.errors import UnknownComment
from squinney.content.markup import limits
from squinney.content.nodes import rules
from squinney.content.nodes.documents import NODES, Node
from squinney.errors import Forbidden, Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Stale, Step, Transactions, Tries

T = TypeVar("T")
# The three have the same methods. Writes to several documents are guarded steps, others one update. A write raises
# `Stale` if the discussion was converted, its node was moved, or the comment has changed.
Storage = Separate | Embedded | Paged
WAIT_SECONDS = 20
MAX_DISCUSSION = 1_000
ERASED: Author = {"_id": "", "name": "deleted"}


class Comments:
    """Comments on any subject: a string of the caller's own, such as "article-5", or a node.

    `node` is the subject: the document of a node, the id of a node, or any other string, which becomes a subject with
    its first comment. With `only_nodes`, other strings raise `UnknownNode`. Passing the document of a node saves a
    query, if it was read in the last few minutes.

    `may(person, "read" or "write", subject)`, if given, decides for the person whom a call names: the author of a post,
    `by` of a change, `reader` of a reading call. A call that names nobody is made by the application itself.

    `strategy` is used for subjects that have no comments yet; a discussion keeps its strategy until `convert`.
    Operations that a strategy does not support raise `StrategyCannot`: see `CAPABILITIES`.
    """

    def __init__(
        self,
        db: Db,
        strategy: Strategy = "separate",
        *,
        transactions: Transactions | None = None,
        clock: Clock = precise_now,
        only_nodes: bool = False,
        may: May | None = None,
    ) -> None:
        if strategy not in CAPABILITIES:
            raise Invalid(f"strategy must be one of {', '.join(CAPABILITIES)}", field="strategy")
        self._db = pinned(db)
        self._strategy = strategy
        self.subjects = Subjects(self._db, strategy, only_nodes=only_nodes, may=may)
        self._clock = clock
        self._transactions = transactions or Transactions(db)
        self._storages: dict[Strategy, Storage] = {
            "separate": Separate(self._db, self._transactions),
            "embedded": Embedded(self._db),
            "paged": Paged(self._db, self._transactions),
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
        also: Sequence[Step] = (),
    ) -> Comment:
        """Add a comment, or a reply to the comment with the slug `reply_to`; only once per `key`.

        Atomic: embedded: one update, or one transaction with further steps. Otherwise one transaction checks and counts
        in the node, inserts the comment, and counts the reply in its parent comment.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownNode`, `UnknownComment`, `Conflict` for a reply to a deleted comment,
        `KeyReused` if the key was used with another text; `StrategyCannot`, `LimitReached`, `DiscussionFull`, `Busy`.
        """
        author = rules.checked_author(author)
        self.subjects.allow(author["_id"], "write", rules.id_of(node))
        text = checked_text(text)
        once = Key.of(key)
        segment = discussions.slug_segment(rules.id_of(node), once) if once else None
        tried = False

        def attempt(discussed: DiscussedNode, storage: Storage) -> Comment:
            nonlocal tried
            parent = self._parent(discussed, storage, reply_to) if reply_to is not None else None
            comment = discussions.new_comment(discussed.node_id, author, text, parent, self._clock(), segment)
            # A key's record is not converted with the discussion and expires after a week; a slug made from the key
            # still identifies the repeated post.
            if segment is not None and (tried or discussed.discussion["epoch"] > 1):
                # guard: a comment of another author is not returned for a repeated key
                if (taken := storage.get(discussed, comment["slug"])) and taken["author"]["_id"] == author["_id"]:
                    return discussions.repeated(taken, comment)
                if taken:
                    comment = discussions.new_comment(discussed.node_id, author, text, parent, self._clock())
            tried = True
            return storage.post(discussed, comment, parent, once, also)

        return self._with_storage(node, attempt, begin=True)

    def _parent(self, discussed: DiscussedNode, storage: Storage, slug: str) -> Comment:
        discussions.require(discussed.discussion["strategy"], "replies")
        parent = _found(storage.get(discussed, discussions.checked_comment_slug(slug)), slug)
        if parent.get("deleted"):
            raise discussions.reply_refused(dict(parent))
        return parent

    @operation(30)
    def edit(
        self, node: Node | str, slug: str, text: str, *, by: str | None = None, also: Sequence[Step] = ()
    ) -> Comment:
        """Change a comment's text; with `by`, only if `by` is the id of its author.

        Atomic: as `post`. The update requires the comment's version and is retried, so that the newest edit wins.
        After a crash: as `post`.
        Raises: `UnknownComment`, also for a deleted comment; `Forbidden`, `Invalid`, `DiscussionFull`.
        """
        text = checked_text(text)
        self.subjects.allow(by, "write", rules.id_of(node))

        def attempt(discussed: DiscussedNode, storage: Storage) -> Comment:
            comment = _changeable(storage.get(discussed, discussions.checked_comment_slug(slug)), slug, by)
            fields = {"text": text, "edited": checks.time(self._clock(), "clock")}
            storage.change(discussed, comment, fields, also=also)
            return cast(Comment, {**comment, **fields, "version": comment["version"] + 1})

        return self._with_storage(node, attempt)

    @operation(30)
    def delete(self, node: Node | str, slug: str, *, by: str | None = None, also: Sequence[Step] = ()) -> None:
        """Delete a comment; with `by`, only if `by` is the id of its author.

        A comment with replies stays in the discussion as a tombstone without text and author.

        Atomic: as `post`.
        After a crash: as `post`.
        Raises: `UnknownComment`, also for a comment that was deleted before; `Forbidden`, `Invalid`.
        """
        self.subjects.allow(by, "write", rules.id_of(node))

        def attempt(discussed: DiscussedNode, storage: Storage) -> None:
            comment = _changeable(storage.get(discussed, discussions.checked_comment_slug(slug)), slug, by)
            # `paged` does not update a parent's count of replies, so replies from before a conversion stay.
            is_converted_reply = discussed.discussion["strategy"] == "paged" and comment["parent_id"]
            if comment["num_replies"] or is_converted_reply:
                tombstone = {"text": "", "author": ERASED, "deleted": checks.time(self._clock(), "clock")}
                storage.change(discussed, comment, tombstone, counted=-1, also=also)
            else:
                storage.remove(discussed, comment, also=also)

        self._with_storage(node, attempt)

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
        reader: str | None = None,
    ) -> Page[Comment]:
        """Return a page of comments, oldest first or in threaded order; `at` begins the page at the comment's slug.

        This takes one query, however long the discussion; two with `at`, and one more if the node is given by its id.

        Raises: `StrategyCannot`, `UnknownNode`, `UnknownComment`, `Forbidden`, `Invalid`.
        """
        checks.integer(limit, "limit", minimum=1, maximum=200)
        self.subjects.allow(reader, "read", rules.id_of(node))
        if order not in discussions.SORTS:
            raise Invalid("order must be chronological or threaded", field="order")

        def attempt(discussed: DiscussedNode, storage: Storage) -> Page[Comment]:
            discussions.require(discussed.discussion["strategy"], order)
            first = _found(storage.get(discussed, discussions.checked_comment_slug(at)), at) if at is not None else None
            return storage.page(discussed, cursor, limit, order, first)

        return self._with_storage(node, attempt, nothing=Page([]))

    @operation(reads_only=True)
    def page_showing(
        self,
        node: Node | str,
        slug: str,
        limit: int = 50,
        order: Order = "chronological",
        *,
        reader: str | None = None,
    ) -> Page[Comment]:
        """Return the page that shows a comment with the best context.

        If all comments fit on one page, it begins with the first. Otherwise it begins with the first comment of the
        thread, with the comment's parent, or with the comment itself: the first of these whose page includes the
        comment. This takes a few queries, however long the discussion.

        Raises: `StrategyCannot`, `UnknownNode`, `UnknownComment`, `Forbidden`, `Invalid`.
        """
        self.get(node, slug, reader=reader)
        for start in self._starts(node, slug, limit, order):
            try:
                shown = self.page(node, None, limit, order, at=start)
            except UnknownComment:  # the comment to begin with may have been removed
                continue
            if any(comment["slug"] == slug for comment in shown.items):
                return shown
        raise UnknownComment(f"there is no comment {slug}", slug=slug)

    def _starts(self, node: Node | str, slug: str, limit: int, order: Order) -> list[str | None]:
        """Return the slugs with which a page that shows the comment may begin, the best first; None is the start."""
        parts = slug.split("/") if order == "threaded" else [slug]
        threads = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        return list(dict.fromkeys([*([None] if self.count(node) <= limit else []), threads[0], *threads[-2:]]))

    @operation(reads_only=True)
    def get(self, node: Node | str, slug: str, *, reader: str | None = None) -> Comment:
        """Return the comment with this slug.

        Raises: `UnknownComment`, `UnknownNode`, `Forbidden`, `Invalid`.
        """
        self.subjects.allow(reader, "read", rules.id_of(node))
        wanted = discussions.checked_comment_slug(slug)
        return self._with_storage(node, lambda discussed, storage: _found(storage.get(discussed, wanted), slug))

    @operation(reads_only=True)
    def discussion(self, node: Node | str, slug: str, *, reader: str | None = None) -> list[Comment]:
        """Return a comment and all replies below it in threaded order, at most 1,000 comments.

        Raises: `StrategyCannot`, `UnknownComment`, `UnknownNode`, `Forbidden`, `Invalid`.
        """
        self.subjects.allow(reader, "read", rules.id_of(node))
        wanted = discussions.checked_comment_slug(slug)

        def attempt(discussed: DiscussedNode, storage: Storage) -> list[Comment]:
            discussions.require(discussed.discussion["strategy"], "discussion")
            return storage.thread(discussed, _found(storage.get(discussed, wanted), slug), MAX_DISCUSSION)

        return self._with_storage(node, attempt, nothing=[])

    @operation(reads_only=True)
    def count(self, node: Node | str) -> int:
        """Return the number of the node's comments, without deleted ones.

        Raises: `UnknownNode`.
        """
        return int(self._metadata(node).get("num_comments", 0))

    @operation(reads_only=True)
    def by_author(self, author_id: str, cursor: str | None = None, limit: int = 50) -> Page[Comment]:
        """Return a page of a person's comments in all discussions with the `separate` strategy, newest first.

        A page can have fewer comments than the limit, because leftovers of conversions are left out.

        Raises: `StrategyCannot` if this instance's strategy is not `separate`; `Invalid`.
        """
        discussions.require(self._strategy, "by_author")
        checks.identifier(author_id, "author")
        listed = page(self._db, queries.BY_AUTHOR, cursor=cursor, limit=limit, author_id=author_id)
        epochs = conversion.epochs_of(self._db, {comment["node_id"] for comment in listed.items})
        # guard: lists by author leave out leftovers of a conversion
        live = [comment for comment in listed.items if comment["epoch"] == epochs.get(comment["node_id"])]
        return Page([discussions.public(comment) for comment in live], listed.next)

    @operation(reads_only=True)
    def strategy_of(self, node: Node | str) -> Strategy:
        """Return the strategy of the node's discussion, or the default strategy if it has no comments.

        Raises: `UnknownNode`.
        """
        discussion = self._metadata(node).get("discussion")
        return cast(Strategy, discussion["strategy"]) if discussion else self._strategy

    # ---- convert ----

    @operation(300)
    def convert(self, node: Node | str, to: Strategy) -> Strategy:
        """Convert a discussion to another strategy while users keep posting; they wait only during the last step.

        Comments are copied under the next epoch, where readers do not see them. Then the discussion is frozen, changes
        made in the meantime are copied, and the node switches to the new strategy.

        Atomic: the update of the node's strategy and epoch, which every write of a comment requires.
        After a crash: invisible copies remain, and perhaps a freeze that expires after a minute. `delete-leftovers` or
        the next `convert` deletes the copies.
        Raises: `Busy` if another conversion runs; `DiscussionFull` if the comments do not fit in the node;
        `UnknownNode`, `Invalid`.
        """
        if to not in CAPABILITIES:
            raise Invalid(f"to must be one of {', '.join(CAPABILITIES)}", field="to")
        collection = None if isinstance(node, str) else NODES
        discussed = self._discussed(rules.id_of(node), begin=True, collection=collection)
        if discussed is not None and discussed.discussion["strategy"] != to:
            source = partial(self._storages[discussed.discussion["strategy"]].all, discussed)
            conversion.convert(self._db, self._transactions, discussed, source, to)
        return to

    # ---- where the comments are stored ----

    def _with_storage(
        self,
        node: Node | str,
        attempt: Callable[[DiscussedNode, Storage], T],
        *,
        begin: bool = False,
        nothing: T | None = None,
    ) -> T:
        """Call `attempt` with the storage that the node names, and again if the discussion was converted or moved.

        If the node has no comments, return `nothing`, or raise `UnknownComment` if that is not given.
        """
        tries = Tries(WAIT_SECONDS, what="the discussion")
        node_id = rules.id_of(node)
        collection = None if isinstance(node, str) else NODES
        discussed = discussed_in(node) or self._discussed(node_id, begin=begin, collection=collection)
        while True:
            if discussed is None:
                if nothing is not None:
                    return nothing
                raise UnknownComment("the subject has no comments")
            collection = discussed.collection
            try:
                return attempt(discussed, self._storages[discussed.discussion["strategy"]])
            except Stale as stale:
                tries.pause(stale)
                discussed = self._discussed(node_id, begin=begin, collection=collection)
            except UnknownComment:  # perhaps only because the given node document is outdated
                before, discussed = discussed, self._discussed(node_id, begin=begin, collection=collection)
                # guard: a comment is looked up again if its node was moved
                if discussed is None or (discussed.epoch_key, discussed.route) == (before.epoch_key, before.route):
                    raise

    def _discussed(self, subject: str, *, begin: bool = False, collection: str | None = None) -> DiscussedNode | None:
        return self.subjects.discussed(subject, begin=begin, collection=collection)

    def _metadata(self, node: Node | str) -> Document:
        collection = None if isinstance(node, str) else NODES
        return self.subjects.metadata(rules.id_of(node), collection)[1]


def _found(comment: Comment | None, slug: str) -> Comment:
    if comment is None:
        raise UnknownComment(f"there is no comment {slug}", slug=slug)
    return comment


def _changeable(comment: Comment | None, slug: str, by: str | None) -> Comment:
    """Return the comment if it is not deleted and, with `by`, was written by that user."""
    changeable = _found(comment, slug)
    if changeable.get("deleted"):
        raise UnknownComment(f"the comment {slug} was deleted", slug=slug)
    # guard: only the author changes a comment
    if by is not None and changeable["author"]["_id"] != by:
        raise Forbidden("only the author may change this comment")
    return changeable


def checked_text(text: Any) -> str:
    """Return the text, or raise `Invalid`: at most 10,000 characters, not only whitespace, not too much markup."""
    checked = checks.text(text, "text", min_length=1, max_length=MAX_COMMENT_LENGTH, pattern=r"(?s).*\S.*")
    return limits.checked(checked, "text", limits.COMMENT)
