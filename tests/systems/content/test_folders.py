"""Import and export of folders with Markdown files and pictures."""

from __future__ import annotations

import io
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.systems.content.conftest import ADA
from tests.systems.content.pictures import jpeg

from squinney.clock import utcnow
from squinney.content import ANYBODY, Node, Nodes, Photos, find_problems
from squinney.content.folders import links
from squinney.content.folders.export import export_folder
from squinney.content.folders.importer import Importer
from squinney.content.folders.plan import slug_of
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


def test_an_exported_folder_equals_the_imported_one(site: Db, folder: Path, tmp_path: Path) -> None:
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
        ("a.md", b"---\ntags: 5\n---\nx"),
        ("a.md", b"---\ndate: 2026\n---\nx"),
        ("a.md", b"---\ndate: 2026-13-01\n---\nx"),
        ("a.md", b"---\ndate: '0001-01-01T00:00:00+14:00'\n---\nx"),
        ("a.md", b"---\naccess: all\n---\nx"),
        ("a.md", b"---\ntitle: " + b"x" * 301 + b"\n---\nx"),
    ],
    ids=[
        *("yaml", "list", "bytes", "type", "date", "large", "picture"),
        *("tags", "number", "month", "year", "access", "title"),
    ],
)
def test_a_bad_file_is_named(site: Db, tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(Invalid, match=name.replace(".", r"\.")):
        Importer(Nodes(site), Photos(site), ADA).import_folder(tmp_path, None)


def imported(site: Db, folder: Path, parent: Node | None = None) -> Counter[str]:
    importer = Importer(Nodes(site), Photos(site), ADA)
    importer.import_folder(folder, parent)
    return importer.counts


def test_a_second_run_brings_tags_times_and_pictures_up_to_date(site: Db, folder: Path) -> None:
    nodes, file = Nodes(site), folder / "about.md"
    file.write_text("---\ntags: one, Two\ndraft: true\n---\nText")
    imported(site, folder)
    assert nodes.by_path("/about")["metadata"]["tags"] == ["one", "two"]
    file.write_text("---\ntags: [two, three]\ndate: 2026-02-03\n---\nText")
    (folder / "blog" / "Cat Photo.jpg").write_bytes(jpeg("blue"))
    assert imported(site, folder) == {"updated": 1, "replaced": 1, "unchanged": 3}
    about = nodes.by_path("/about", viewer=ANYBODY)["metadata"]
    assert (about["tags"], about["published"]) == (["two", "three"], datetime(2026, 2, 3, tzinfo=UTC))
    assert b"".join(Photos(site).open(nodes.by_path("/blog/cat-photo"), "original").read()) == jpeg("blue")
    assert imported(site, folder) == {"unchanged": 5}


def test_hidden_nodes_and_children_of_pages_are_exported_and_imported(site: Db, tmp_path: Path) -> None:
    nodes, photos = Nodes(site), Photos(site)
    first = nodes.create(None, "first", "folder", "First", ADA)
    page = nodes.create(first, "page", "basic-page", "Page", ADA, {"text": "    indented\n\n---\n"}, published=utcnow())
    nodes.create(page, "below", "basic-page", "Below", ADA, {"text": "\n\nlines"})
    detail = {"alt": "What it shows", "text": "More"}
    photo = photos.upload(io.BytesIO(jpeg()), first, "dawn", author=ADA, title="Dawn!", detail=detail, tags=["sky"])
    nodes.create(photo, "note", "basic-page", "Note", ADA)
    nodes.create(first, "bare", "photo", "Bare", ADA)
    nodes.set_access(page, {"read": ["role:friend"], "edit": ["user:ada"]})
    export_folder(nodes, photos, first, tmp_path / "out")
    second = nodes.create(None, "second", "folder", "Second", ADA)
    imported(site, tmp_path / "out", second)
    for path in ("page", "page/below", "dawn", "dawn/note", "bare"):
        before, after = (nodes.by_path(f"/{top}/{path}")["metadata"] for top in ("first", "second"))
        for name in ("title", "type", "tags", "published", "num_children"):
            assert after[name] == before[name]  # type: ignore[literal-required]
        assert after.get("access") == before.get("access")
        for name in ("text", "alt", "sha256"):
            assert after["detail"].get(name) == before["detail"].get(name)
    assert imported(site, tmp_path / "out", second) == {"unchanged": 5}


def test_a_time_more_exact_than_a_stored_one_is_no_change(site: Db, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ndate: 2026-02-03T04:05:06.789123Z\n---\ntext")
    assert imported(site, tmp_path) == {"created": 1}
    assert imported(site, tmp_path) == {"unchanged": 1}


def test_two_files_of_one_address_are_refused(site: Db, tmp_path: Path) -> None:
    (tmp_path / "dawn.jpg").write_bytes(jpeg("red"))
    (tmp_path / "Dawn.jpeg").write_bytes(jpeg("blue"))
    with pytest.raises(Invalid, match=r"dawn\.jpg: another file"):
        imported(site, tmp_path)


def test_a_byte_order_mark_does_not_hide_the_front_matter(site: Db, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntitle: Marked\n---\ntext", encoding="utf-8-sig")
    (tmp_path / "b.md").write_text("---\n---\ntext")
    imported(site, tmp_path)
    assert Nodes(site).by_path("/a")["metadata"]["title"] == "Marked"
    assert Nodes(site).by_path("/b")["metadata"]["detail"]["text"] == "text"


def test_names_become_slugs() -> None:
    assert slug_of("Crème brûlée.v2") == "creme-brulee.v2"
    assert slug_of("  Hello  World ") == "hello-world"
    assert slug_of("北京") == slug_of("北京") != slug_of("東京")
    assert slug_of("北京").startswith("n-")


def test_all_forms_of_names_and_front_matter_are_imported(site: Db, tmp_path: Path) -> None:
    texts = {
        "日本語.md": "---\ntags: [C#, a/b]\n---\nx",
        "long.markdown": "+++\ntitle = 'From TOML'\ntags = ['t']\ndate = 2020-01-02\n+++\ntext\n",
        "said.md": "---\ndraft: 'false'\n---\nx",
        "not-yet.md": "---\ndraft: 'yes'\n---\nx",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in ("page.html", "paper.pdf", "drawing.svg", "notes.yaml"):
        (tmp_path / name).write_text("x")
    importer = Importer(Nodes(site), Photos(site), ADA)
    importer.import_folder(tmp_path, None)
    assert importer.skipped == ["drawing.svg", "notes.yaml", "page.html", "paper.pdf"]
    assert importer.counts == {"created": 4, "skipped": 4}
    nodes = Nodes(site)
    assert nodes.by_path(f"/{slug_of('日本語')}", viewer=ANYBODY)["metadata"]["tags"] == ["c#", "a-b"]
    assert nodes.tagged("C#").items
    toml = nodes.by_path("/long")["metadata"]
    assert (toml["title"], toml["tags"], toml["detail"]["text"]) == ("From TOML", ["t"], "text\n")
    assert toml["published"] == datetime(2020, 1, 2, tzinfo=UTC)
    assert nodes.by_path("/said")["metadata"]["published"]
    assert nodes.by_path("/not-yet")["metadata"]["published"] is None


def test_nothing_is_written_where_any_file_is_wrong_and_all_are_named(site: Db, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    wrong = {"a.md": "fine", "b.md": "---\ndraft: maybe\n---\n", "in/c.md": "+++\nx\n+++\n", "in/d.jpg": "no"}
    for name, text in wrong.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(Invalid) as caught:
        imported(site, tmp_path)
    assert [name in caught.value.message for name in wrong] == [False, True, True, True]
    assert site["content.nodes"].count_documents({}) == 0


def test_links_to_imported_files_are_rewritten(site: Db, tmp_path: Path) -> None:
    (tmp_path / "sub" / "img").mkdir(parents=True)
    (tmp_path / "a cat.jpg").write_bytes(jpeg("red"))
    (tmp_path / "sub" / "img" / "dog.jpg").write_bytes(jpeg("blue"))
    pictures = "![1](./a%20cat.jpg) ![2](<a cat.jpg> 'T') <img alt='x' src=\"sub/img/dog.jpg\">"
    (tmp_path / "main.md").write_text(f"{pictures} [o](sub/other.md#part)\n\n[r]: sub/")
    (tmp_path / "sub" / "other.md").write_text("[back](../main.md) ![d](img/dog.jpg) `](img/dog.jpg)` [u](gone.md)")
    nodes = Nodes(site)
    top = nodes.create(None, "top", "folder", "Top", ADA)
    assert imported(site, tmp_path, top) == {"created": 4, "pictures": 2}
    cat, dog = (f"/site/-/asset/{nodes.by_path(path)['_id']}" for path in ("/top/a-cat", "/top/sub/img/dog"))
    main, other = nodes.by_path("/top/main"), nodes.by_path("/top/sub/other")
    assert main["metadata"]["detail"]["text"] == (
        f"![1]({cat}) ![2]({cat} 'T') <img alt='x' src=\"{dog}\"> [o](/site/top/sub/other#part)\n\n[r]: /site/top/sub"
    )
    assert other["metadata"]["detail"]["text"] == (f"[back](/site/top/main) ![d]({dog}) `](img/dog.jpg)` [u](gone.md)")
    assert imported(site, tmp_path, top) == {"unchanged": 6}
    export_folder(nodes, Photos(site), top, tmp_path / "out")
    assert 'src="sub/img/dog.jpg"' in (tmp_path / "out" / "main.md").read_text()
    assert "![d](img/dog.jpg)" in (tmp_path / "out" / "sub" / "other.md").read_text()
    assert imported(site, tmp_path / "out", top) == {"unchanged": 6}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a](x)", "[a](NEW)"),
        ('[a](x "t")', '[a](NEW "t")'),
        ("[a][r]\n\n[r]: <x> 't'", "[a][r]\n\n[r]: NEW 't'"),
        ("<A HREF='x'>", "<A HREF='NEW'>"),
        ("```\n[a](x)\n```\n[a](x)", "```\n[a](x)\n```\n[a](NEW)"),
        ("~~~\n[a](x)", "~~~\n[a](x)"),
        ("``[a](x)`` `b` [a](x)", "``[a](x)`` `b` [a](NEW)"),
        ("[a](y) (x) x [a](x y)", "[a](y) (x) x [a](x y)"),
        ("[![i](x)](x)", "[![i](NEW)](NEW)"),
    ],
)
def test_addresses_are_found_in_all_their_forms_and_not_in_code(before: str, after: str) -> None:
    assert links.rewritten(before, lambda address: "NEW" if address == "x" else None) == after


def test_a_folder_named_like_the_file_of_a_page_is_exported_and_imported(site: Db, tmp_path: Path) -> None:
    nodes, photos = Nodes(site), Photos(site)
    first = nodes.create(None, "first", "folder", "First", ADA)
    nodes.create(first, "a", "basic-page", "A", ADA)
    inner = nodes.create(first, "a.md", "folder", "Inner", ADA)
    nodes.create(inner, "b", "basic-page", "B", ADA, {"text": "😀" * 100_000})
    photos.upload(io.BytesIO(jpeg()), first, "p", author=ADA)
    for slug in ("p.jpg", "p.jpg.yaml"):
        nodes.create(first, slug, "gallery", slug, ADA)
    export_folder(nodes, photos, first, tmp_path)
    second = nodes.create(None, "second", "folder", "Second", ADA)
    imported(site, tmp_path, second)
    for path in ("a", "a.md", "a.md/b", "p", "p.jpg", "p.jpg.yaml"):
        before, after = (nodes.by_path(f"/{top}/{path}")["metadata"] for top in ("first", "second"))
        assert (after["title"], after["type"]) == (before["title"], before["type"])
