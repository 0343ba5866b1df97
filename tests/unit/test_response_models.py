"""Response models derived from the types of documents."""

from __future__ import annotations

from typing import NotRequired, TypedDict

import pytest
from pydantic import ValidationError

from squinney.http.response_models import model_of, page_of


class Wheel(TypedDict):
    """A wheel."""

    _id: str
    spokes: int


class Bike(TypedDict):
    """A bike. `lock` is described for readers of the source only."""

    _id: str
    name: str
    wheels: list[Wheel]
    bell: NotRequired[str]
    lock: NotRequired[list[str]]


BIKE = model_of(Bike, without=["lock"], gears=(int, 1))
STORED = {"_id": "b", "name": "Red", "wheels": [{"_id": "w", "spokes": 36, "lock": 1}], "lock": ["txn"]}


def test_a_model_has_id_and_lacks_the_fields_left_out():
    answered = BIKE.model_validate(STORED).model_dump()
    wheels = [{"id": "w", "spokes": 36}]
    assert answered == {"id": "b", "name": "Red", "wheels": wheels, "bell": None, "gears": 1}


def test_the_schema_says_what_a_document_must_have():
    schema = BIKE.model_json_schema(mode="serialization")
    assert (schema["title"], schema["description"]) == ("Bike", "A bike.")
    assert {"id", "name", "wheels"} <= set(schema["required"])
    assert "bell" not in BIKE.model_json_schema()["required"]
    with pytest.raises(ValidationError, match="wheels"):
        BIKE.model_validate({"_id": "b", "name": "Red"})


def test_a_page_has_items_and_a_cursor():
    page = page_of(BIKE)
    assert page.__name__ == "BikePage"
    assert page.model_validate({"items": [STORED], "next": None}).model_dump()["items"][0]["id"] == "b"
    with pytest.raises(ValidationError, match="next"):
        page.model_validate({"items": []})
