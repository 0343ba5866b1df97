"""The name, logo, colours and templates of a site, replaced by the files of a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import squinney
from squinney import assembly
from squinney.errors import Invalid
from squinney.http.appearance import appearance_in
from squinney.service.site import create_site

SOURCE = Path(squinney.__file__).parent
BASE = """{% extends "squinney/base.html" %}
{% block account %}<p>Open until six</p>{% endblock %}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that replaces all that can be replaced."""
    for part in ("static", "templates"):
        (tmp_path / part).mkdir()
    (tmp_path / "site.toml").write_text('name = "Harbour Records"\n')
    (tmp_path / "static" / "logo.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "static" / "site.css").write_text(":root { --accent: #0a5c8a; }")
    (tmp_path / "templates" / "base.html").write_text(BASE)
    return tmp_path


def test_the_files_of_a_folder_replace_ours(systems: assembly.Assembled, folder: Path) -> None:
    with TestClient(create_site(systems, appearance=appearance_in(folder))) as visitor:
        for path in ("/", "/shop", "/sign-in", "/nowhere"):
            page = visitor.get(path, headers={"accept": "text/html"}).text
            assert "Squinney" not in page
            assert re.search(r"<title>(\w[^<]* - )?Harbour Records</title>", page)
            assert "Open until six" in page
        assert "#0a5c8a" in visitor.get("/static/appearance/site.css").text
        assert visitor.get("/static/appearance/logo.svg").status_code == 200
        for hidden in ("site.toml", "../site.toml", "templates/base.html"):
            assert visitor.get(f"/static/appearance/{hidden}").status_code == 404


@pytest.mark.parametrize(("text", "reason"), [("name", "is not TOML"), ("colour = 'red'", "only footer and name")])
def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(Invalid, match=reason):
        appearance_in(tmp_path)
    with pytest.raises(Invalid, match="there is no folder"):
        appearance_in(tmp_path / "nowhere")


def test_no_template_names_squinney() -> None:
    """A page's title is its own: `base.html` adds the name of the site."""
    named = [path.name for path in SOURCE.rglob("*.html") if "Squinney" in path.read_text()]
    assert named == [], "write {{ site.name }}"
