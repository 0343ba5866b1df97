"""Links between the texts of the site and the products of the shop."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.clock import utcnow
from squinney.commerce import Catalog
from squinney.errors import Unavailable
from squinney.service.links import mentions

HTML = {"accept": "text/html"}
ADA = {"_id": "ada", "name": "Ada"}
TEXT = "Listen to [Dusk](/shop/products/film), and not to [that](/shop/products/none)."


@pytest.fixture
def town(stranger: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a site with a film, a public and a hidden entry about it, and a public and a limited post."""
    monkeypatch.setattr(mentions, "KEPT_SECONDS", 0)
    pricing = {"list": 500, "retail": 500, "currency": "EUR"}
    systems.services["commerce"]["catalog"].add({"_id": "film", "type": "Film", "title": "Dusk", "pricing": pricing})
    nodes = systems.services["content"]["nodes"]
    at = utcnow() - timedelta(days=1)
    nodes.create(None, "open", "basic-page", "An open entry", ADA, {"text": TEXT}, published=at)
    nodes.create(None, "draft", "basic-page", "A draft", ADA, {"text": TEXT})
    hidden = nodes.create(None, "hidden", "basic-page", "A hidden entry", ADA, {"text": TEXT}, published=at)
    nodes.set_access(hidden, {"read": ["user:ada"], "edit": ["user:ada"]})
    network = systems.services["social"]["network"]
    for name in ("ann", "bob"):
        network.join(name.title(), user=name)
    network.circle("ann", "bob", "friends")
    for circle in ("*public*", "friends"):
        network.post("ann", "status", {"text": f"{circle} of /shop/products/film"}, [circle])
    return stranger


def test_a_text_shows_its_products_and_a_product_the_public_texts_about_it(town: TestClient) -> None:
    entry = town.get("/site/open", headers=HTML).text
    assert '<a href="/shop/products/film">Dusk</a>' in entry.partition("Products in this text")[2]
    assert "5.00 EUR" in entry
    product = town.get("/shop/products/film", headers=HTML).text.partition("Mentioned in")[2]
    assert '<a href="/site/open">An open entry</a>' in product
    assert "*public* of" in product
    for hidden in ("A draft", "A hidden entry", "friends of"):
        assert hidden not in product


def test_pages_are_shown_although_their_links_cannot_be_read(town: TestClient) -> None:
    with patch.object(Catalog, "get_many", side_effect=Unavailable("too slow")):
        assert "Listen to" in town.get("/site/open", headers=HTML).text
    with patch.object(mentions, "public_nodes", side_effect=Unavailable("too slow")):
        assert "Dusk" in town.get("/shop/products/film", headers=HTML).text
