"""Pictures of products."""

from __future__ import annotations

import io
from unittest.mock import patch

import pytest
from PIL import Image
from tests.systems.commerce.conftest import PRICING

from squinney.commerce import Catalog, Pictures, UnknownProduct
from squinney.commerce.pictures import pictures as limits
from squinney.commerce.pictures import sizes
from squinney.errors import Invalid, LimitReached, NotFound
from squinney.mongo.schema import Db

PRODUCT = {"_id": "lp", "type": "Audio Album", "title": "Lamp", "pricing": PRICING}


def image(width: int, height: int, kind: str = "PNG") -> io.BytesIO:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, kind)
    file.seek(0)
    return file


@pytest.fixture
def pictures(shop_db: Db) -> Pictures:
    Catalog(shop_db).add(PRODUCT)
    return Pictures(shop_db)


def shown(db: Db) -> list[str]:
    return [one["_id"] for one in Pictures(db).of([Catalog(db).get("lp")]).get("lp", [])]


def test_a_picture_can_be_read_in_each_size_that_it_has(shop_db: Db, pictures: Pictures) -> None:
    added = pictures.add("lp", image(1_000, 500), alt="A lamp")
    assert [(one["width"], one["height"]) for one in added["sizes"]] == [(320, 160), (640, 320), (1_000, 500)]
    assert pictures.of([Catalog(shop_db).get("lp")]) == {"lp": [added]}
    for asked, got in ((1, 320), (320, 320), (321, 640), (5_000, 1_000)):
        size, content = pictures.read("lp", added["_id"], asked)
        assert (size["width"], size["type"], Image.open(io.BytesIO(content)).width) == (got, "image/webp", got)


def test_a_small_picture_is_not_enlarged_and_a_large_one_is_reduced(pictures: Pictures) -> None:
    assert [size["width"] for size in pictures.add("lp", image(100, 100))["sizes"]] == [100]
    assert [size["width"] for size in pictures.add("lp", image(320, 100))["sizes"]] == [320]
    assert [size["width"] for size in pictures.add("lp", image(2_000, 100))["sizes"]] == [320, 640, 1_280]


def test_pictures_are_listed_oldest_first_and_can_be_removed(shop_db: Db, pictures: Pictures) -> None:
    first, second = (pictures.add("lp", image(10, 10))["_id"] for _ in range(2))
    assert shown(shop_db) == sorted([first, second])
    pictures.remove("lp", first)
    assert shown(shop_db) == [second]
    for attempt in (lambda: pictures.remove("lp", first), lambda: pictures.read("lp", first, 320)):
        with pytest.raises(NotFound):
            attempt()


def test_what_is_no_picture_is_refused(pictures: Pictures) -> None:
    with pytest.raises(Invalid, match="JPEG, PNG, GIF or WebP"):
        pictures.add("lp", io.BytesIO(b"<svg xmlns='http://www.w3.org/2000/svg'/>"))
    with patch.object(sizes, "MAX_PIXELS", 99), pytest.raises(Invalid, match="at most 99 pixels"):
        pictures.add("lp", image(10, 10))
    with pytest.raises(UnknownProduct):
        pictures.add("missing", image(10, 10))
    with patch.object(limits, "MAX_PICTURES", 0), pytest.raises(LimitReached):
        pictures.add("lp", image(10, 10))


def test_a_photo_is_turned_upright_and_loses_its_metadata(pictures: Pictures) -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by a quarter
    exif[0x010E] = "taken at home"
    Image.new("RGB", (40, 20), "teal").save(file, "JPEG", exif=exif)
    file.seek(0)
    added = pictures.add("lp", file)
    content = pictures.read("lp", added["_id"], 40)[1]
    assert (added["sizes"][0]["width"], added["sizes"][0]["height"]) == (20, 40)
    assert b"home" not in content


def test_pictures_of_a_removed_product_are_not_those_of_the_next_one(shop_db: Db, pictures: Pictures) -> None:
    pictures.add("lp", image(10, 10))
    Catalog(shop_db).remove("lp")
    Catalog(shop_db).add(PRODUCT)
    kept = pictures.add("lp", image(10, 10))["_id"]
    assert shown(shop_db) == [kept]
    assert pictures.forget_lost() == {"forgotten": 1}
    assert [picture["_id"] for picture in shop_db["commerce.pictures"].find()] == [kept]
    assert not pictures.forget_lost()
