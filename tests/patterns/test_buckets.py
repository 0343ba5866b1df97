"""Items in numbered pages: none lost, doubled or misplaced, and no page over its size, with many writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from squinney.errors import Invalid
from squinney.mongo.queries import stages
from squinney.mongo.schema import Collection, apply
from squinney.patterns.buckets import Buckets

PAGES = Buckets("pages", owner=("node_id",), items="comments", size=10, key="slug")
OWNER = {"node_id": "n"}


@pytest.fixture(autouse=True)
def _collection(db):
    apply(db, [Collection("pages", indexes=PAGES.indexes())])


def fill(db, count, pages=PAGES, owner=OWNER):
    return [pages.append(db, owner, {"slug": f"s{n:03}", "ts": n}) for n in range(count)]


def walk(db, **options):
    cursor, screens = None, []
    while True:
        page = PAGES.read(db, OWNER, cursor=cursor, **options)
        screens.append([item["slug"] for item in page.items])
        cursor = page.next
        if cursor is None:
            return screens


def test_pages_fill_one_after_the_other(db):
    assert fill(db, 25) == [1] * 10 + [2] * 10 + [3] * 5
    assert [len(screen) for screen in walk(db)] == [10, 10, 5]
    assert sum(walk(db), []) == [f"s{n:03}" for n in range(25)]  # noqa: RUF017 - three small lists
    assert [len(screen) for screen in walk(db, newest_first=True)] == [5, 10, 10]
    assert sum(walk(db, newest_first=True), []) == [f"s{n:03}" for n in reversed(range(25))]  # noqa: RUF017


def test_owners_are_apart(db):
    fill(db, 3)
    assert PAGES.append(db, {"node_id": "other"}, {"slug": "s000"}) == 1
    assert len(PAGES.read(db, OWNER).items) == 3
    assert PAGES.read(db, {"node_id": "nobody"}).items == []


def test_an_item_appended_again_is_left_where_it_is(db):
    fill(db, 15)
    for n in (0, 12):  # on a full page, and on the open one
        assert PAGES.append(db, OWNER, {"slug": f"s{n:03}", "ts": "again"}) == n // 10 + 1
    assert sum(len(screen) for screen in walk(db)) == 15
    assert sum(page["count"] for page in db.pages.find()) == 15


def test_a_removed_item_leaves_no_room_behind(db):
    fill(db, 20)
    for n in range(20):
        assert PAGES.remove(db, OWNER, f"s{n:03}")
    assert not PAGES.remove(db, OWNER, "s000")
    assert walk(db) == [[], []]
    assert PAGES.append(db, OWNER, {"slug": "s000"}) == 3


def test_fifty_writers_lose_double_and_misplace_nothing(db):
    barrier = Barrier(50)

    def post(writer):
        barrier.wait()
        return [(f"{writer}-{n}", PAGES.append(db, OWNER, {"slug": f"{writer}-{n}"})) for n in range(6)]

    with ThreadPoolExecutor(50) as pool:
        posted = dict(one for some in pool.map(post, range(50)) for one in some)
    pages = list(db.pages.find().sort("page"))
    assert [page["page"] for page in pages] == list(range(1, 31))
    assert all(page["count"] == len(page["comments"]) == 10 for page in pages)
    assert {item["slug"]: page["page"] for page in pages for item in page["comments"]} == posted


def test_the_same_item_from_twenty_threads_is_stored_once(db):
    barrier = Barrier(20)

    def post(_):
        barrier.wait()
        return [PAGES.append(db, OWNER, {"slug": f"same{n}"}) for n in range(12)]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, range(20)))
    stored = [item["slug"] for page in db.pages.find() for item in page["comments"]]
    assert sorted(stored) == sorted(f"same{n}" for n in range(12))
    assert all(answer == answers[0] for answer in answers)


def test_without_a_key_items_may_repeat_and_with_an_order_they_are_sorted(db):
    news = Buckets("news", owner=("user_id", "month"), items="posts", size=4, order={"ts": 1})
    apply(db, [Collection("news", indexes=news.indexes())])
    owner = {"user_id": 1, "month": "202611"}
    for ts in (3, 1, 2, 2, 9):
        news.append(db, owner, {"ts": ts})
    assert [[post["ts"] for post in page["posts"]] for page in db.news.find().sort("page")] == [[1, 2, 2, 3], [9]]


def test_appends_in_a_transaction_come_and_go_with_it(client, db):
    fill(db, 10)
    with client.start_session() as session:
        session.start_transaction()
        assert PAGES.append(db, OWNER, {"slug": "new"}, session=session) == 2
        assert PAGES.append(db, OWNER, {"slug": "new"}, session=session) == 2
        assert PAGES.append(db, OWNER, {"slug": "s003"}, session=session) == 1
        session.abort_transaction()
    assert db.pages.count_documents({}) == 1


def test_racing_transactions_all_come_through(client, db):
    def post(writer):
        with client.start_session() as session:
            session.with_transaction(lambda s: PAGES.append(db, OWNER, {"slug": f"w{writer}"}, session=s))

    with ThreadPoolExecutor(15) as pool:
        list(pool.map(post, range(15)))
    assert sorted(len(screen) for screen in walk(db)) == [5, 10]


@pytest.mark.parametrize("query", PAGES.queries(OWNER), ids=lambda query: query.name)
def test_every_read_has_its_index(db, query):
    fill(db, 35)
    assert not {"COLLSCAN", "SORT"} & stages(query.explain(db)["queryPlanner"])


def test_a_foreign_cursor_is_refused(db):
    with pytest.raises(Invalid, match="cursor"):
        PAGES.read(db, OWNER, cursor="x")
