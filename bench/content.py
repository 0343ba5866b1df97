"""Nodes by path, pages of comments, posting and rendering, compared with the raw driver and two peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import bson

from bench import content_peers, report
from bench.harness import Contender, Series, compare
from squinney import transactions
from squinney.content import COLLECTIONS, Comments, Node, Nodes
from squinney.content.comments import conversion, queries
from squinney.content.comments.discussions import new_comment
from squinney.content.comments.documents import PAGES
from squinney.content.documents import Strategy
from squinney.content.markup import render
from squinney.content.nodes.documents import NODES, WITHOUT_COMMENTS
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

ADA: Any = {"_id": "ada", "name": "Ada"}
SIZES = (10, 1_000, 100_000)
AIM = 1.2
STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")
TEXT = "A comment of a usual length, with *some* emphasis and a [link](https://example.org). " * 3
PAGE_TEXT = "\n\n".join(f"## Part {n}\n\nSome *text* with `code` and [a link](/x).\n\n- one\n- two" for n in range(20))


def run(connection: Connection, *, rounds: int = 5, seconds: float = 1.0) -> None:
    """Measure everything and write the page."""
    db = connection.client["bench_content"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
    quick = seconds < 1
    parts = [
        _by_path(db, rounds, seconds),
        _pages(db, rounds, seconds),
        _posting(db, rounds, seconds),
        _rendering(rounds, seconds),
        content_peers.section(quick=quick),
    ]
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(db.name)
    note = (
        f"{rounds} interleaved rounds of {seconds} s; rates are medians, costs medians of the rounds' ratios. "
        f"{report.machine(version)}"
    )
    report.write_page("content", "Content compared with the raw driver and two peers", [*parts, note])


def _row(case: str, series: list[Series], *more: str) -> list[list[str]]:
    raw = series[0]
    return [
        [case, contender.name, f"{contender.rate:,.0f}",
         f"{contender.percentile(0.5):.2f}", f"{contender.percentile(0.99):.2f}",
         f"{raw.ratio_to(contender):.2f}x", *more]
        for contender in series
    ]  # fmt: skip


# ---- nodes ----


def _by_path(db: Db, rounds: int, seconds: float) -> str:
    nodes = Nodes(db)
    above = None
    for slug in ("a", "b", "c"):
        above = nodes.create(above, slug, "basic-page", slug, ADA, {"text": PAGE_TEXT})

    def raw(_: int) -> None:
        parent = None
        for slug in ("a", "b", "c"):
            where = {"metadata.parent_id": parent, "metadata.slug": slug}
            parent = db[NODES].find_one(where, WITHOUT_COMMENTS)["_id"]  # type: ignore[index]

    contenders = [Contender("raw driver", raw), Contender("Nodes.by_path", lambda _: _ignore(nodes.by_path("/a/b/c")))]
    series = compare(contenders, threads=1, rounds=rounds, seconds=seconds)
    head = ["", "how", "per second", "p50 ms", "p99 ms", "cost"]
    return "## A node three levels down\n\n" + report.table(head, _row("/a/b/c", series))


def _ignore(_: object) -> None:
    """Drop the result, because contenders return nothing."""


# ---- comments ----


def discussion(db: Db, strategy: Strategy, size: int) -> Node:
    """Create a node with this number of comments in a strategy."""
    nodes, comments = Nodes(db), Comments(db, strategy)
    node = nodes.create(None, f"{strategy}-{size}", "basic-page", "P", ADA)
    comments.post(node, ADA, "first")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    crowd = [new_comment(node["_id"], ADA, TEXT, None, start + timedelta(milliseconds=n)) for n in range(size)]
    fields = conversion.COPY_TO[strategy](db, node["_id"], 1, crowd)
    db[NODES].update_one({"_id": node["_id"]}, {"$set": {**fields, "metadata.num_comments": size}})
    return nodes.by_id(node["_id"])


def _pages(db: Db, rounds: int, seconds: float) -> str:
    rows: list[list[str]] = []
    for strategy in STRATEGIES:
        for size in SIZES:
            if strategy == "embedded" and size == SIZES[-1]:
                rows.append([f"embedded, {size:,}", "refused", "", "", "", "", "", "does not fit in 13 MB"])
                continue
            rows += _page_rows(db, strategy, size, rounds, seconds)
    head = ["stored, comments", "how", "per second", "p50 ms", "p99 ms", "cost", "documents examined", "bytes sent"]
    title = "## A page of 50 comments from the middle of a discussion\n\n"
    return title + report.table(head, rows) + "\n\n" + _against_aim(rows)


def _against_aim(rows: list[list[str]]) -> str:
    """Return which results miss the aim, and by how much."""
    costs = {row[0]: float(row[5].removesuffix("x")) for row in rows if row[1] == "Comments.page"}
    missed = [f"{case} ({cost / AIM - 1:.0%} over)" for case, cost in costs.items() if cost > AIM]
    return (
        f"The aim is {AIM}x. "
        + (f"Missed by: {'; '.join(missed)}. " if missed else "All cases meet it. ")
        + "The plain driver's query has no time limit, does not check the discussion's epoch, and shows undecided "
        "writes."
    )


def _page_rows(db: Db, strategy: Strategy, size: int, rounds: int, seconds: float) -> list[list[str]]:
    node = discussion(db, strategy, size)
    comments = Comments(db, strategy)
    middle = list(comments._storages[strategy].all(comments._discussed(node["_id"])))[size // 2]  # type: ignore[arg-type]
    cursor = comments.page(node, limit=1, at=middle["slug"]).next
    raw, command = _raw_page(db, node, strategy, middle)
    plan = db.command({"explain": command, "verbosity": "executionStats"})
    examined, sent = _examined(plan), len(bson.encode({"": raw()}))
    contenders = [
        Contender("raw driver", lambda _: _ignore(raw())),
        Contender("Comments.page", lambda _: _ignore(comments.page(node, cursor))),
    ]
    series = compare(contenders, threads=1, rounds=rounds, seconds=seconds)
    return _row(f"{strategy}, {size:,}", series, f"{examined:,}", f"{sent:,}")


def _raw_page(db: Db, node: Node, strategy: Strategy, at: Any) -> tuple[Callable[[], list[Any]], dict[str, Any]]:
    """Read the same page with the plain driver."""
    node_id = node["_id"]
    if strategy == "separate":
        where = {"node_id": node_id, "posted": {"$gte": at["posted"]}}
        command = {"find": "comments", "filter": where, "sort": {"posted": 1, "_id": 1}, "limit": 51}
        return lambda: list(db["content.comments"].find(where, limit=51).sort([("posted", 1), ("_id", 1)])), command
    if strategy == "paged":
        stored = db[PAGES].find_one({"node_id": node_id, "comments.slug": at["slug"]}, {"page": 1})
        where = {"node_id": node_id, "page": {"$gte": stored["page"]}}  # type: ignore[index]
        command = {"find": PAGES, "filter": where, "sort": {"page": 1}, "limit": 2}
        return lambda: list(db[PAGES].find(where, limit=2).sort("page", 1)), command
    stages = queries.EMBEDDED_PAGE(node={"_id": node_id}, sort="_id", limit=51, bounds={"$gt": at["_id"]})
    return lambda: list(db[NODES].aggregate(stages)), {"aggregate": NODES, "pipeline": stages, "cursor": {}}


def _examined(plan: Any) -> int:
    if isinstance(plan, dict):
        own = plan.get("totalDocsExamined")
        return own if isinstance(own, int) else max((_examined(value) for value in plan.values()), default=0)
    return max((_examined(value) for value in plan), default=0) if isinstance(plan, list) else 0


def _posting(db: Db, rounds: int, seconds: float) -> str:
    rows: list[list[str]] = []
    for threads in (1, 32):
        contenders = [Contender("raw insert_one, no node, no guard", lambda _: _raw_post(db))]
        for strategy in STRATEGIES:
            contenders.append(Contender(strategy, _poster(db, strategy, threads)))
        series = compare(contenders, threads=threads, rounds=min(rounds, 3), seconds=seconds)
        rows += _row(f"{threads} {'writer' if threads == 1 else 'writers'}", series)
    head = ["on one node", "stored", "per second", "p50 ms", "p99 ms", "cost"]
    return "## Posting\n\n" + report.table(head, rows)


def _raw_post(db: Db) -> None:
    db["raw_comments"].insert_one({**new_comment("n", ADA, TEXT, None, datetime.now(UTC))})


def _poster(db: Db, strategy: Strategy, threads: int) -> Callable[[int], None]:
    node = Nodes(db).create(None, f"post-{strategy}-{threads}-{time.time_ns()}", "basic-page", "P", ADA)
    comments = Comments(db, strategy)
    return lambda _: _ignore(comments.post(node["_id"], ADA, "short"))


# ---- rendering ----


def _rendering(rounds: int, seconds: float) -> str:
    from markdown_it import MarkdownIt

    bare = MarkdownIt("commonmark")
    contenders = [
        Contender("markdown-it-py alone", lambda _: _ignore(bare.render(PAGE_TEXT))),
        Contender("render.markdown, sanitised", lambda _: _ignore(render.markdown(PAGE_TEXT))),
    ]
    series = compare(contenders, threads=1, rounds=rounds, seconds=min(seconds, 1.0))
    head = ["", "how", "pages/s", "p50 ms", "p99 ms", "cost"]
    return f"## Rendering a page of {len(PAGE_TEXT):,} characters\n\n" + report.table(head, _row("", series))
