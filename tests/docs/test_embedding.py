"""The comparison is fair: every form of the data gives the same answers."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from bench import embedding_forms as forms
from bench.embedding import weigh
from bench.embedding_forms import Way


@pytest.fixture
def filled(db, monkeypatch):
    for name, count in {
        "PEOPLE": 20,
        "BOOKS": 30,
        "WRITERS": 10,
        "POSTS": 4,
        "COMMENTS_A_POST": 6,
        "READERS": 5,
    }.items():
        monkeypatch.setattr(forms, name, count)
    forms.fill_phone_book(db)
    forms.fill_blog(db)
    forms.fill_books(db)
    forms.fill_growing(db, 30)
    return db


def answers(db, ways: list[Way], seed: int) -> list[object]:
    return [way.do(db, random.Random(seed)) for way in ways]


TASKS: Mapping[str, list[Way]] = forms.PHONE_BOOK | forms.BLOG | forms.BOOKSHELF | forms.growing(30)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_all_forms_answer_alike(filled, task):
    for seed in range(10):
        first, *others = answers(filled, TASKS[task], seed)
        assert all(other == first for other in others)


def test_a_rename_reaches_every_form(filled):
    answers(filled, forms.BOOKSHELF["rename a writer"], seed=3)
    for seed in range(10):
        for task in ("a book with its writers' names", "a writer with titles"):
            first, *others = answers(filled, forms.BOOKSHELF[task], seed)
            assert all(other == first for other in others)


def test_round_trips_are_counted_on_the_wire(filled, mongod):
    trips = [weigh(mongod.uri, filled.name, way)[0] for way in forms.BOOKSHELF["a book with its writers' names"]]
    assert trips == [1, 2, 3]
