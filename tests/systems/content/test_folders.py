"""A folder of Markdown and pictures becomes a site, and the site the same folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.systems.content.conftest import ADA
from tests.systems.content.pictures import jpeg

from squinney.cli.content_folder import Importer, export_folder, slug_of
from squinney.content import ANYBODY, Nodes, Photos, find_problems
from squinney.errors import Invalid
from squinney.mongo.schema import Db

HELLO = """---
title: "Hello: there"
tags: [news, First]
date: 2026-01-05
---
Look at ![this](Cat Photo.jpg).
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    blog = tmp_path / "in" / "blog"
    blog.mkdir(parents=True)
    (blog / "_index.md").write_text("---\ntitle: The blog\ntype: blog\n---\nWelcome.")
    (blog / "Hello World.md").write_text(HELLO)
    (blog / "draft.md").write_text("---\ndraft: true\n---\nNot yet.")
    (blog / "Cat Photo.jpg").write_bytes(jpeg("orange"))
    (blog / ".hidden.md").write_text("no")
    (blog / "link.md").symlink_to(blog / "draft.md")
    (tmp_path / "in" / "about.md").write_text("# About\n\nPlain, without front matter.")
    return tmp_path / "in"


def test_a_folder_goes_in_and_comes_out_the_same(site: Db, folder: Path, tmp_path: Path) -> None:
    nodes, photos = Nodes(site), Photos(site)
    first = Importer(nodes, photos, ADA)
    first.import_folder(folder, None)
    assert first.counts == {"created": 4, "pictures": 1}
    hello = nodes.by_path("/blog/hello-world", viewer=ANYBODY)
    cat = nodes.by_path("/blog/cat-photo")
    assert hello["metadata"]["title"] == "Hello: there"
    assert hello["metadata"]["type"] == "blog-entry"
    assert hello["metadata"]["tags"] == ["news", "first"]
    assert f"(/site/-/asset/{cat['_id']})" in hello["metadata"]["detail"]["text"]
    assert nodes.by_path("/blog/draft")["metadata"]["published"] is None
    again = Importer(nodes, photos, ADA)
    again.import_folder(folder, None)
    assert again.counts == {"unchanged": 5}
    (folder / "about.md").write_text("# About\n\nChanged.")
    third = Importer(nodes, photos, ADA)
    third.import_folder(folder, None)
    assert third.counts["updated"] == 1
    assert list(find_problems(site)) == []
    export_folder(nodes, photos, None, tmp_path / "out")
    assert (tmp_path / "out" / "blog" / "cat-photo.jpg").read_bytes() == jpeg("orange")
    assert "](cat-photo.jpg)" in (tmp_path / "out" / "blog" / "hello-world.md").read_text()
    other = nodes.create(None, "copy", "folder", "Copy", ADA)
    Importer(nodes, photos, ADA).import_folder(tmp_path / "out", other)
    copied = nodes.by_path("/copy/blog/hello-world")["metadata"]
    for name in ("title", "type", "tags", "published"):
        assert copied[name] == hello["metadata"][name]  # type: ignore[literal-required]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.md", b"---\n[1, 2\n---\nx"),
        ("a.md", b"---\n- a\n---\nx"),
        ("a.md", b"\xff\xfe"),
        ("a.md", b"---\ntype: novel\n---\nx"),
        ("a.md", b"---\ndate: soon\n---\nx"),
        ("a.md", b"x" * 2_000_001),
        ("a.jpg", b"<html>"),
    ],
    ids=["yaml", "list", "bytes", "type", "date", "large", "picture"],
)
def test_a_bad_file_is_named(site: Db, tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(Invalid, match=name.replace(".", r"\.")):
        Importer(Nodes(site), Photos(site), ADA).import_folder(tmp_path, None)


def test_names_become_slugs() -> None:
    assert slug_of("Crème brûlée.v2") == "creme-brulee.v2"
    assert slug_of("  Hello  World ") == "hello-world"
    with pytest.raises(Invalid):
        slug_of("北京")
