"""The cards of the home page."""

from __future__ import annotations

import io
from unittest.mock import patch

import pytest
from PIL import Image
from starlette.testclient import TestClient

from squinney import assembly
from squinney.clock import utcnow
from squinney.commerce import demo as shop_demo
from squinney.errors import Unavailable
from squinney.game.demo import demo as game_demo
from squinney.ledger import Accounts
from squinney.service.front import home_cards
from squinney.service.links.page_views import SITE
from squinney.service.town.parts import MARKS

HTML = {"Accept": "text/html"}


@pytest.fixture
def page(stranger: TestClient, systems: assembly.Assembled) -> TestClient:
    """Return a site with a shop, a world and an account; each view makes the pictures again."""
    shop_demo(systems.db)
    game_demo(systems.db)
    Accounts(systems.db).open("EUR", 123_456, name="Ann")
    file = io.BytesIO()
    Image.new("RGB", (9, 9), "teal").save(file, "PNG")
    file.seek(0)
    systems.services["commerce"]["pictures"].add("album-0", file)
    return stranger


def shown(page: TestClient) -> str:
    page.app.state.card_pictures = home_cards.CardPictures(page.app.state.assembled)  # type: ignore[attr-defined]
    return page.get("/", headers=HTML).text


def test_cards_have_pictures_of_what_everybody_may_see(page: TestClient, systems: assembly.Assembled) -> None:
    html = shown(page)
    assert 'src="/shop/pictures/' in html
    assert "A map of 25 rooms" in html
    assert "1,234.56" not in html
    systems.db[MARKS].insert_one({"_id": "town: bank", "loaded": True})
    assert "1,234.56" in shown(page)


def test_views_are_on_no_card_if_the_site_is_private(page: TestClient, systems: assembly.Assembled) -> None:
    analytics = systems.services["analytics"]
    analytics["hits"].record(SITE, "/", utcnow(), 1_234)
    assert "1,234 views today" in shown(page)
    analytics["report_sites"].set_private(SITE, True)
    assert "1,234" not in shown(page)


def test_a_card_without_its_picture_is_shown(page: TestClient) -> None:
    with patch.dict(home_cards.PICTURES, {"commerce": lambda services: _fail()}):
        html = shown(page)
    assert 'src="/shop/pictures/' not in html
    assert "A catalog" in html


def _fail() -> None:
    raise Unavailable("too slow")


def test_pictures_are_made_once_for_many_visitors(page: TestClient) -> None:
    made: list[int] = []
    with patch.dict(home_cards.PICTURES, {"game": lambda services: made.append(1) or home_cards.Markup("map")}):
        shown(page)
        page.get("/", headers=HTML)
    assert made == [1]
