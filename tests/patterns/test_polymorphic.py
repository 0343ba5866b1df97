"""Typed documents of any version load as the newest version of their class, and saving loses no fields."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from squinney.errors import Conflict, Invalid
from squinney.patterns.polymorphic import Document, Part, Types, Unreadable, newest_version, stored_path, upgrades


class Item(Document):
    schema_version: int = Field(2, alias="sv")
    id: str = Field(alias="_id")
    title: str
    short_description: str = Field("", alias="sd")
    detail: Any = None


class Size(Part):
    width: int = Field(alias="w")
    height: int = Field(alias="h")


class PhotoDetail(Part):
    size: Size
    taken_with: str | None = Field(None, alias="tw")


class Photo(Item):
    type: Literal["photo"] = "photo"
    schema_version: int = Field(4, alias="sv")
    detail: PhotoDetail


class Video(Item):
    type: Literal["video"] = "video"
    detail: dict[str, Any] = {}


@upgrades(Item, 1)
def name_becomes_title(stored):
    stored["title"] = stored.pop("name")
    return stored


@upgrades(Photo, 1)
def detail_is_new(stored):
    assert "title" in stored  # the base's function has run
    stored["detail"] = {"size": stored.pop("size")}
    return stored


@upgrades(Photo, 3)
def size_becomes_a_document(stored):
    width, height = stored["detail"]["size"].split("x")
    stored["detail"]["size"] = {"w": int(width), "h": int(height)}
    return stored


ITEMS = Types(Item, Photo, Video)
OLD = {"_id": "p", "type": "photo", "name": "Sea", "size": "30x20", "txn_checks": 7}
NEW = {
    "_id": "p",
    "type": "photo",
    "sv": 4,
    "title": "Sea",
    "sd": "",
    "detail": {"size": {"w": 30, "h": 20}, "tw": None},
    "txn_checks": 7,
}


@pytest.mark.parametrize(
    "stored",
    [
        OLD,
        {**OLD, "sv": 1},
        {"_id": "p", "type": "photo", "sv": 2, "title": "Sea", "detail": {"size": "30x20"}, "txn_checks": 7},
        {"_id": "p", "type": "photo", "sv": 3, "title": "Sea", "detail": {"size": "30x20"}, "txn_checks": 7},
        NEW,
    ],
)
def test_every_age_loads_alike_and_is_saved_in_the_new_form(db, stored):
    db.items.insert_one(dict(stored))
    read = db.items.find_one()
    photo = ITEMS.load(read)
    assert isinstance(photo, Photo)
    assert (photo.title, photo.detail.size.width, photo.short_description) == ("Sea", 30, "")
    assert read == stored, "loading must not touch what was read"
    db.items.replace_one({"_id": "p"}, ITEMS.dump(photo))
    assert db.items.find_one() == NEW
    assert not ITEMS.is_outdated(NEW)
    assert ITEMS.is_outdated(stored) == (stored is not NEW)


def test_an_unknown_type_loads_as_the_base_and_keeps_its_fields():
    stored = {"_id": "x", "type": "hologram", "sv": 1, "name": "?", "detail": {"depth": 3}, "more": [1]}
    item = ITEMS.load(stored)
    assert type(item) is Item
    assert (item.title, item.type) == ("?", "hologram")
    assert ITEMS.dump(item) == {"_id": "x", "type": "hologram", "sv": 2, "title": "?", "sd": "",
                                "detail": {"depth": 3}, "more": [1]}  # fmt: skip


def test_unknown_fields_are_kept_on_every_level():
    detail = {"size": {"w": 1, "h": 2, "unit": "px"}, "tw": None, "lens": "50mm"}
    assert ITEMS.dump(ITEMS.load({**NEW, "detail": detail}))["detail"] == detail


def test_a_document_of_a_newer_program_can_be_read_but_not_saved():
    newer = ITEMS.load({**NEW, "sv": 5, "added": True})
    assert newer.title == "Sea"
    with pytest.raises(Unreadable, match="version 5"):
        ITEMS.dump(newer)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sv": "4"}, "sv"),
        ({"sv": 0}, "sv"),
        ({"sv": 3}, "AttributeError"),
        ({"detail": {}}, "detail.size"),
        ({"title": None}, "title"),
    ],
)
def test_what_fits_no_version_is_named(change, reason):
    with pytest.raises(Unreadable) as refused:
        ITEMS.load({**NEW, **change})
    assert isinstance(refused.value, Conflict)
    assert refused.value.details["id"] == "p"
    assert reason in refused.value.details["reason"]


def test_input_is_parsed_under_long_names_and_strictly():
    given = {"type": "photo", "id": "n", "title": "T", "detail": {"size": {"width": 1, "height": 2}}}
    photo = ITEMS.parse(given)
    assert isinstance(photo, Photo)
    assert ITEMS.dump(photo)["detail"] == {"size": {"w": 1, "h": 2}, "tw": None}
    for wrong, field in [
        ({**given, "extra": 1}, "extra"),
        ({**given, "schema_version": 9}, "schema_version"),
        ({**given, "detail": {"size": {"width": 1, "height": 2, "z": 1}}}, "detail.size.z"),
        ({**given, "title": {"$gt": ""}}, "title"),
        ({"id": "n", "title": "T"}, "type"),
        ({**given, "type": ["photo"]}, "type"),
        ([], "document"),
    ]:
        with pytest.raises(Invalid) as refused:
            ITEMS.parse(wrong)
        assert refused.value.details["field"] == field


def test_a_user_adds_a_type_without_changing_what_others_see():
    class Song(Item):
        type: Literal["song"] = "song"

    stored = {"_id": "s", "type": "song", "sv": 2, "title": "La"}
    assert type(ITEMS.adding(Song).load(stored)) is Song
    assert type(ITEMS.load(stored)) is Item


def test_an_upgrade_may_change_the_type():
    class Clip(Item):
        type: Literal["clip"] = "clip"
        schema_version: int = Field(3, alias="sv")

    @upgrades(Clip, 2)
    def long_clips_are_videos(stored):
        return {**stored, "type": "video"}

    assert isinstance(ITEMS.adding(Clip).load({"_id": "c", "type": "clip", "sv": 2, "title": "C"}), Video)


def test_stored_paths():
    assert stored_path(Photo, "detail.size.width") == "detail.size.w"
    assert stored_path(Photo, "short_description") == "sd"
    assert stored_path(Video, "detail.free") == "detail.free"
    with pytest.raises(KeyError):
        stored_path(Photo, "nothing")
    assert newest_version(Photo) == 4


def test_mistakes_in_declaring_are_found_at_once():
    class Nameless(Item):
        pass

    class Elsewhere(Item):
        type: Literal["elsewhere"] = Field("elsewhere", alias="kind")

    class Stranger(Document):
        type: Literal["stranger"] = "stranger"

    class Forgetful(BaseModel):
        x: int

    class Lossy(Item):
        type: Literal["lossy type"] = "lossy type"
        detail: list[Forgetful] | None = None

    for models in [(Lossy,), (Nameless,), (Elsewhere,), (Stranger,), (Photo, Photo)]:
        with pytest.raises(ValueError, match=r"type|is not a"):
            Types(Item, *models)
    for version in (0, 1, 4):
        with pytest.raises(ValueError, match="no version"):
            upgrades(Photo, version)(lambda stored: stored)
