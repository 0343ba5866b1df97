"""Imports a graph: adds many pairs at once, with few and large writes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain

from pymongo import ReplaceOne, UpdateOne
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.queue import Queue
from squinney.social import queries, rules
from squinney.social.members.accounts import new_member
from squinney.social.members.circles import catch_up_later
from squinney.social.members.edges import circle_names, mirrored, resized, with_circle
from squinney.transactions import in_transaction

Ends = tuple[str, str]  # owner and other
CHANGED = ("circles", "circled", "merged")
MAX_ID_LENGTH = 50
LOADED_AT_ONCE = 1_000


def import_pairs(db: Db, queue: Queue, pairs: Iterable[Ends], circle: str, clock: Clock) -> Iterator[int]:
    """Put the second user of each pair into a circle of the first; yield the number of new edges after each batch."""
    batch: list[Ends] = []
    for me, other in pairs:
        batch.append((checks.identifier(me, "me"), checks.identifier(other, "other")))
        if len(batch) == LOADED_AT_ONCE:
            yield _import_batch(db, queue, batch, circle, clock)
            batch = []
    yield _import_batch(db, queue, batch, circle, clock)


def _import_batch(db: Db, queue: Queue, batch: list[Ends], circle: str, clock: Clock) -> int:
    if not batch:
        return 0
    return in_transaction(db, lambda session: add_pairs(db, queue, batch, circle, clock(), session), seconds=60)


def add_pairs(db: Db, queue: Queue, pairs: Sequence[Ends], circle: str, now: datetime, session: ClientSession) -> int:
    """Put the second user of each pair into a circle of the first, and return the number of new edges.

    Users who are not members yet become members.
    """
    users = _members(db, set(chain.from_iterable(pairs)), session)
    edges = _edges(db, [pair for pair in pairs if users.keys() >= set(pair)], session)
    added = _new_members(db, [user for user in chain.from_iterable(pairs) if user not in users], now, session)
    known, old = set(edges), set(users)
    users.update(added)
    touched: set[Ends] = set()
    new: list[Ends] = []
    for me, other in dict.fromkeys(pairs):
        edge = edges.get((me, other), {"_id": {"owner": me, "other": other}})
        # guard: an import leaves blocked pairs out
        if me == other or circle in circle_names(edge) or {"blocked_at", "blocked_by_at"} & edge.keys():
            continue
        _count(users[me], users[other], circle, is_first="circled_at" not in edge)
        edge = with_circle(edge, circle, now)
        edges[me, other], edges[other, me] = edge, mirrored(edge)
        touched |= {(me, other), (other, me)}
        new.append((me, other))
    _insert(db, list(added.values()), [edges[ends] for ends in touched - known], session)
    _replace_edges(db, {ends: edges[ends] for ends in touched & known}, session)
    _set_counts(db, [users[me] for me in old & {me for me, _ in touched}], session)
    if new:
        # guard: imported followers catch up with the posts that were delivered in the meantime
        catch_up_later(queue, new, now, session)
    return len(new)


def _count(user: Document, other: Document, circle: str, *, is_first: bool) -> None:
    if is_first:
        rules.check_limit(user["circled"], rules.MAX_CIRCLED, "people in circles")
    user["circles"] = resized(user["circles"], circle, 1)
    user["circled"] += int(is_first)
    # guard: imported followers of a merged author get merged posts
    if "merging" in other and other["_id"] not in user["merged"]:
        user["merged"].append(other["_id"])


def _new_members(db: Db, ids: Iterable[str], now: datetime, session: ClientSession) -> dict[str, Document]:
    """Return user documents for these ids, each with a unique handle, even if two ids give the same handle."""
    wanted = {user: f"m-{rules.handle_for(user)}" for user in ids}
    handles = queries.SOME_HANDLES.find(db, handles=sorted(set(wanted.values())), session=session) if wanted else ()
    taken = {handle["_id"] for handle in handles}
    added = {}
    for user, handle in wanted.items():
        # guard: imported members get unique handles
        free = handle if handle not in taken else f"{handle[:20]}-{secrets.token_hex(8)}"
        added[user] = new_member(user, f"Member {user}", free, now)
        taken.add(free)
    return added


# ---- reading ----


def _members(db: Db, ids: Iterable[str], session: ClientSession) -> dict[str, Document]:
    fields = dict.fromkeys((*CHANGED, "merging"), 1)
    users = queries.SOME_USERS.find(db, users=sorted(ids), session=session, projection=fields)
    return {user["_id"]: user for user in users}


def _edges(db: Db, pairs: Sequence[Ends], session: ClientSession) -> dict[Ends, Document]:
    """Return the stored edges of these pairs, in both directions. New members have no edges yet."""
    wanted = sorted({*pairs, *((other, me) for me, other in pairs)})
    if not wanted:
        return {}
    ids = [{"owner": owner, "other": other} for owner, other in wanted]
    edges = queries.SOME_EDGES.find(db, ids=ids, session=session)
    return {(edge["_id"]["owner"], edge["_id"]["other"]): edge for edge in edges}


# ---- writing ----


def _insert(db: Db, members: list[Document], edges: list[Document], session: ClientSession) -> None:
    handles = [{"_id": member["handle"], "user": member["_id"]} for member in members]
    for name, documents in (("users", members), ("handles", handles), ("edges", edges)):
        if documents:
            db[f"social.{name}"].insert_many(documents, session=session)


def _replace_edges(db: Db, edges: dict[Ends, Document], session: ClientSession) -> None:
    writes = [ReplaceOne(queries.EDGE(owner=owner, other=other), edge) for (owner, other), edge in edges.items()]
    if writes:
        db["social.edges"].bulk_write(writes, session=session)


def _set_counts(db: Db, users: list[Document], session: ClientSession) -> None:
    writes = [UpdateOne({"_id": user["_id"]}, {"$set": {name: user[name] for name in CHANGED}}) for user in users]
    if writes:
        db["social.users"].bulk_write(writes, session=session)


# ---- edge lists ----


def parse_pair(line: str, number: int) -> Ends | None:
    """Return the pair of ids on a line of an edge list, or None for an empty line or a comment."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    if len(words) < 2 or any(len(word) > MAX_ID_LENGTH or not word.isprintable() for word in words[:2]):
        message = f"line {number} must begin with two ids of at most {MAX_ID_LENGTH} printable characters"
        raise Invalid(message, field="file", line=number, limit=MAX_ID_LENGTH)
    return words[0], words[1]
