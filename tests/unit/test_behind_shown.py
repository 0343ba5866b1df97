"""Which documents and values are shown behind a page."""

from __future__ import annotations

from typing import Any

from squinney.service.behind.recording import Sent
from squinney.service.behind.shown import PageText, shown_documents

PAGE = PageText("<p>Order order-17 of <b>Ada Lovelace</b>: 12.34, 2 pieces, paid.</p>")


def shown(collection: str, **document: Any) -> dict[str, Any]:
    found = shown_documents([Sent("find", collection, documents=[document])], PAGE)
    return {name: list(values) for one in found for name, values in one.fields.items()}


def test_of_a_document_only_the_values_on_the_page_are_shown() -> None:
    document = {"state": "paid", "memo": "a birthday", "total": 1234, "items": [{"title": "Ada Lovelace", "cost": 999}]}
    assert shown("commerce.orders", _id="order-17", **document) == {
        "state": ["paid"],
        "total": ["12.34"],
        "items": ["Ada Lovelace"],
    }


def test_a_short_number_is_not_shown_since_it_may_mean_something_else() -> None:
    assert shown("commerce.orders", _id="order-17", state="paid", version=2) == {"state": ["paid"]}


def test_a_document_of_which_the_page_shows_nothing_telling_is_not_shown() -> None:
    assert shown("commerce.orders", _id="order-18", state="paid", total=1234) == {}


def test_documents_of_people_are_never_shown() -> None:
    assert shown("identity.people", _id="order-17", name="Ada Lovelace") == {}
    assert shown("squinney.keys", _id="order-17", name="Ada Lovelace") == {}


def test_a_field_whose_name_no_system_declares_is_not_shown() -> None:
    assert shown("commerce.orders", _id="order-17", **{"ada-lovelace": "paid", "state": "paid"}) == {"state": ["paid"]}
