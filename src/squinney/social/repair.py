"""What can be wrong in the network's data, found and mended.

An owner's own circles and blocks are the record, and the comments; what others keep of them, and counts, follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymongo.client_session import ClientSession

from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, mend, problems
from squinney.mongo.schema import Db, Document
from squinney.social import check_queries, queries
from squinney.social.graph import own_part, twin
from squinney.social.posting import last_comments
from squinney.transactions import in_transaction


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; what is queued is no problem.

    Raises: `SnapshotTooOld`.
    """
    yield from problems(pinned(db), CHECKS)


def repair(db: Db) -> Counter[str]:
    """Make both sides of an edge say the same, and counts what there is to count; remove comments without a post.

    Atomic: each finding in one transaction.
    After a crash: run it again.
    Raises: `SnapshotTooOld`, `Busy`.
    """
    return +mend(pinned(db), CHECKS)


def _set_both(db: Db, found: Document) -> int:
    """What each of the two decided, written on both sides."""
    owner, other = found["_id"]["owner"], found["_id"]["other"]
    edges = db["social.edges"]

    def work(session: ClientSession) -> int:
        ids = [{"owner": owner, "other": other}, {"owner": other, "other": owner}]
        one, two = (own_part(edges.find_one({"_id": _id}, session=session) or {"_id": _id}) for _id in ids)
        edges.delete_many({"_id": {"$in": ids}}, session=session)
        right = {**twin(two), **one}
        if len(right) > 1:
            edges.insert_many([right, twin(right)], session=session)
        return 1

    return in_transaction(db, work)


def _set_counts(db: Db, found: Document) -> int:
    unchanged = {"_id": found["_id"], "circles": found["circles"], "circled": found["circled"]}
    circles = [one for one in found["true_circles"] if one["count"]]
    change = {"$set": {"circles": circles, "circled": found["true_circled"]}}
    return db["social.users"].update_one(unchanged, change).modified_count


def _set_comments(db: Db, found: Document) -> int:
    def work(session: ClientSession) -> int:
        count = db["social.comments"].count_documents(queries.COMMENTS(post=found["_id"]), session=session)
        change = {"$set": {"comments": last_comments(db, found["_id"], session), "comment_count": count}}
        return db["social.posts"].update_one(queries.POST(post=found["_id"]), change, session=session).modified_count

    return in_transaction(db, work)


def _remove_comment(db: Db, found: Document) -> int:
    return db["social.comments"].delete_one({"_id": found["_id"], "post_id": found["post_id"]}).deleted_count


CHECKS = [
    Check(
        "one-sided-edge",
        check_queries.ONE_SIDED,
        "what {_id[owner]} says of {_id[other]} is not what the other side keeps",
        repair=_set_both,
        counted_as="edges set",
    ),
    Check(
        "wrong-circle-count",
        check_queries.WRONG_COUNTS,
        "the circles of {_id} say {circled} people, the edges {true_circled}",
        repair=_set_counts,
        counted_as="counts set",
    ),
    Check(
        "wrong-comments",
        check_queries.WRONG_COMMENTS,
        "post {_id} says {comment_count} comments, there are {count}, or it shows other ones",
        repair=_set_comments,
        counted_as="posts set",
    ),
    Check(
        "lost-comment",
        check_queries.LOST_COMMENTS,
        "comment {_id} belongs to post {post_id}, which is gone",
        repair=_remove_comment,
        counted_as="comments removed",
    ),
]
