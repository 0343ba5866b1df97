"""Comments on subjects of the caller's own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.systems.content.conftest import ADA, BEN

from squinney.content import Comments, Moderation, Nodes, People, UnknownComment, UnknownNode, find_problems, repair
from squinney.content.documents import Strategy
from squinney.errors import Forbidden
from squinney.mongo.schema import Db

ARTICLE = "article-5"
STRATEGIES: tuple[Strategy, ...] = ("separate", "embedded", "paged")


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    chosen: Strategy = request.param
    return chosen


def _texts(comments: Comments, subject: str = ARTICLE) -> list[str]:
    return [comment["text"] for comment in comments.page(subject).items]


def test_any_string_can_be_discussed(site: Db, strategy: Strategy) -> None:
    comments = Comments(site, strategy)
    assert (_texts(comments), comments.count(ARTICLE)) == ([], 0)
    with pytest.raises(UnknownComment):
        comments.get(ARTICLE, "nothing")
    first = comments.post(ARTICLE, ADA, "first", key="k")
    assert comments.post(ARTICLE, ADA, "first", key="k")["slug"] == first["slug"]
    second = comments.post(ARTICLE, BEN, "second")
    comments.post("article-6", BEN, "elsewhere")
    assert _texts(comments) == ["first", "second"]
    comments.edit(ARTICLE, second["slug"], "better", by="ben")
    comments.delete(ARTICLE, first["slug"], by="ada")
    assert (_texts(comments), comments.count(ARTICLE)) == (["better"], 1)
    assert _texts(comments, "article-6") == ["elsewhere"]
    assert site["content.nodes"].count_documents({}) == 0
    assert list(find_problems(site)) == []


@pytest.mark.parametrize("to", STRATEGIES)
def test_a_discussion_of_a_subject_is_converted(site: Db, strategy: Strategy, to: Strategy) -> None:
    comments = Comments(site, strategy)
    for number in range(3):
        comments.post(ARTICLE, ADA, f"no {number}")
    comments.convert(ARTICLE, to)
    assert comments.strategy_of(ARTICLE) == to
    comments.post(ARTICLE, BEN, "after")
    assert _texts(comments) == ["no 0", "no 1", "no 2", "after"]
    assert list(find_problems(site)) == []


def test_concurrent_first_comments_begin_one_discussion(site: Db) -> None:
    each = [Comments(site, strategy) for strategy in STRATEGIES * 3]
    with ThreadPoolExecutor(len(each)) as pool:
        list(pool.map(lambda comments: comments.post(ARTICLE, ADA, "hello"), each))
    assert _texts(each[0]) == ["hello"] * len(each)
    assert each[0].count(ARTICLE) == len(each)


def test_who_may_read_and_write_is_asked(site: Db) -> None:
    def may(person: str, action: str, subject: str) -> bool:
        return person == "ada" or (action == "read" and subject == ARTICLE)

    comments = Comments(site, may=may)
    slug = comments.post(ARTICLE, ADA, "mine")["slug"]
    secret = comments.post("secret", ADA, "unseen")["slug"]
    assert [comment["text"] for comment in comments.page(ARTICLE, reader="ben").items] == ["mine"]
    assert comments.get(ARTICLE, slug, reader="ben")["text"] == "mine"
    for refused in (
        lambda: comments.post(ARTICLE, BEN, "no"),
        lambda: comments.edit(ARTICLE, slug, "no", by="ben"),
        lambda: comments.delete(ARTICLE, slug, by="ben"),
        lambda: comments.page("secret", reader="ben"),
        lambda: comments.page_showing("secret", secret, reader="ben"),
        lambda: comments.get("secret", secret, reader="ben"),
        lambda: comments.discussion("secret", secret, reader="ben"),
    ):
        with pytest.raises(Forbidden):
            refused()
    assert (_texts(comments), _texts(comments, "secret")) == (["mine"], ["unseen"])  # the application itself may


def test_a_node_is_a_subject_and_never_becomes_another_one(site: Db) -> None:
    node = Nodes(site).create(None, "page", "basic-page", "Page", ADA)
    comments = Comments(site)
    comments.post(node["_id"], ADA, "by its id")
    comments.post(node, BEN, "by its document")
    assert comments.count(node) == 2
    assert site["content.subjects"].count_documents({}) == 0
    Nodes(site).remove(node)
    with pytest.raises(UnknownNode):
        comments.post(node, ADA, "too late")
    with pytest.raises(UnknownNode):
        Comments(site, only_nodes=True).post(ARTICLE, ADA, "not a node")
    assert site["content.subjects"].count_documents({}) == 0


def test_a_persons_comments_on_all_subjects_are_exported_flagged_and_erased(site: Db, strategy: Strategy) -> None:
    comments = Comments(site, strategy)
    slug = comments.post(ARTICLE, ADA, "rude")["slug"]
    comments.post(ARTICLE, BEN, "kind")
    moderation = Moderation(site, comments)
    moderation.flag(ARTICLE, slug, "ben", "spam")
    (entry,) = moderation.queue().items
    assert entry.comment is not None
    assert entry.comment["text"] == "rude"
    people = People(site, comments)
    assert [comment["text"] for comment in people.export("ada")] == ["rude"]
    people.erase("ada")
    assert list(people.export("ada")) == []
    assert _texts(comments) == ["kind"]
    assert list(find_problems(site)) == []


def test_a_wrong_count_of_a_subject_is_found_and_repaired(site: Db, strategy: Strategy) -> None:
    Comments(site, strategy).post(ARTICLE, ADA, "one")
    site["content.subjects"].update_one({"_id": ARTICLE}, {"$set": {"metadata.num_comments": 7}})
    assert [problem.code for problem in find_problems(site)] == ["wrong-comment-count"]
    repair(site)
    assert (list(find_problems(site)), Comments(site).count(ARTICLE)) == ([], 1)
