"""Rendering: no script survives, and valid Markdown is rendered correctly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.systems.content.vectors import XSS

from squinney.content.comments.comments import checked_text
from squinney.content.markup import limits, nesting, render
from squinney.content.nodes import rules
from squinney.errors import Invalid, Unavailable

ADDRESSES = {"href", "src"}


class Inspector(HTMLParser):
    """Collects every tag and attribute that is in the HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, Any]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    handle_startendtag = handle_starttag


def dangers(html: str, tags: set[str]) -> list[str]:
    inspector = Inspector()
    inspector.feed(html)
    inspector.close()
    found = [tag for tag, _ in inspector.found if tag not in tags]
    for _, attributes in inspector.found:
        for name, value in attributes.items():
            squeezed = "".join(letter for letter in (value or "") if letter > " ").lower()
            if name.startswith("on") or name in ("style", "srcdoc", "formaction", "id", "name"):
                found.append(name)
            if name in ADDRESSES and squeezed.startswith(("javascript", "data:", "vbscript", "blob:", "file:")):
                found.append(squeezed)
    return found


@pytest.mark.parametrize("text", XSS)
def test_no_vector_survives(text: str) -> None:
    assert dangers(render.markdown(text), render.TAGS) == []
    assert dangers(render.comment(text), render.COMMENT_TAGS) == []


@given(st.lists(st.sampled_from([*XSS, "\n\n", "> ", "* ", "`", "<", ">", "\\", '"', "'", "&#", "[x](", ")"])))
@settings(deadline=None, max_examples=150)
def test_no_mixture_of_vectors_survives(parts: list[str]) -> None:
    text = "".join(parts)
    once = render.markdown(text)
    assert dangers(once, render.TAGS) == []
    assert dangers(render.comment(text), render.COMMENT_TAGS) == []


def test_what_is_meant_reads_well() -> None:
    shown = render.markdown("# Hi\n\nA [link](https://a.example 'T') and ![pic](/p.jpg)\n\n```python\nx\n```\n")
    assert "<h1>Hi</h1>" in shown
    assert '<a href="https://a.example" title="T" rel="noopener noreferrer">link</a>' in shown
    assert '<img src="/p.jpg" alt="pic">' in shown
    assert '<code class="language-python">' in shown
    comment = render.comment("# no *heading* ![no](x.png) [ok](http://a.example) <b>x</b>")
    assert "<h1" not in comment
    assert "<img" not in comment
    assert "nofollow" in comment
    assert "&lt;b&gt;" in comment
    assert render.summary("# A *b*\n\nc <i>d</i> & e") == "A b c d & e"
    assert len(render.summary("word " * 500)) <= 300


@pytest.mark.parametrize(
    "text",
    [
        "<ul><li>" * 2_000,
        "<ul><table><tr><td></ul></td></tr></table>" * 1_000,
        "<i><b title='</b></i>'>" * 2_000,
        "<div>\n" * 2_000 + "</div>\n" * 2_000,
        "<p>\n" + "".join(f"<b id={number}>" for number in range(500)) + "\n\n" + "x\n\n" * 2_500,
        "*a **a " * 700 + "b" + " a** a*" * 700,
    ],
)
def test_what_nests_too_deep_to_be_sanitised_in_time_is_shown_as_it_was_typed(text: str) -> None:
    shown = render.markdown(text)
    assert "&lt;" in shown or "*a **a" in shown
    assert nesting.work(shown) <= render.MAX_NESTING_WORK
    assert "<ul>" not in shown
    assert "<em>" not in shown
    assert dangers(shown, render.TAGS) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<ul><li>" * 100 + "deep" + "</li></ul>" * 100, "<ul><li>" * 100 + "deep"),
        ("<table>\n" + "<tr><td>one<td>two\n" * 5_000 + "</table>", "<tr><td>one</td><td>two\n</td></tr>"),
        ("<dl>" + "<dt>a<dd>b" * 5_000 + "</dl>", "<dt>a</dt><dd>b</dd>"),
        ("Press <kbd>Enter</kbd>, <kbd title='a > b'>x</kbd> <!-- a-b --> <br>\n\n" * 2_000, "<kbd>Enter</kbd>"),
    ],
)
def test_html_that_is_long_but_sound_is_kept(text: str, kept: str) -> None:
    assert kept in render.markdown(text)


TOO_MUCH = {
    "cells that nobody typed": ("|a" * 300 + "\n" + "|-" * 300 + "\n" + "x\n" * 219 + "\n") * 10,
    "cells that were typed": "|a|b|c|d|\n|-|-|-|-|\n\n" + "|a|b|\n|-|-|\n" * 9_000,
    "cells in a quote": "> " + "|a" * 300 + "\n> " + "|-" * 300 + "\n" + "> x\n" * 219,
    "lines": "- a\n" * 30_000,
    "brackets": "[" * 60_000,
    "letters": "a" * 500_001,
}


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_text_that_would_take_long_to_render_is_refused_before_and_never_rendered(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid) as refused:
        rules.checked_detail("basic-page", {"text": text})
    assert refused.value.details["field"] == "detail.text"
    # One that was stored before there were limits is shown as it was typed.
    monkeypatch.setattr(render, "_pages", lambda: pytest.fail("it is rendered"))
    assert render.markdown(text).startswith("<pre>")


def test_a_comment_may_have_less_markup_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="text may have at most 2000 marks"):
        checked_text("[" * 3_000)
    monkeypatch.setattr(render, "_comments", lambda: pytest.fail("it is rendered"))
    assert render.comment("[" * 3_000).startswith("<pre>")
    assert checked_text("word " * 2_000)


TABLE_PARTS = ["|", "-", "a", "\n", "|-|-", "|a|b", "> ", "- ", "  ", "1. ", ":", "\r", "#", "\x0b"]


@given(st.lists(st.sampled_from(TABLE_PARTS)))
@settings(deadline=None, max_examples=300)
@example(["|a|b", "\n", "|-|-", "\n", "|", "\n", "-", "|", "-", "\n", "a"])
def test_no_table_has_more_cells_than_are_counted(parts: list[str]) -> None:
    text = "".join(parts)
    cells = sum(token.type in ("td_open", "th_open") for token in render._pages().parse(text))
    counted = {what: found for what, _, found in limits._counts(text, limits.PAGE)}["cells in its tables"]
    assert counted >= cells


def test_what_was_rendered_is_kept_until_other_texts_need_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "CACHE", render.RenderCache(100_000))
    calls = []
    clean = render.nh3.clean
    monkeypatch.setattr(render.nh3, "clean", lambda *args, **options: calls.append(args[0]) or clean(*args, **options))
    for _ in range(2):
        assert render.markdown("*a* [b](c)") == '<p><em>a</em> <a href="c" rel="noopener noreferrer">b</a></p>\n'
        assert 'href="http://d.example/c"' in render.markdown("*a* [b](c)", base_url="http://d.example/")
        assert "nofollow" in render.comment("*a* [b](c)")
        assert render.summary("*a* [b](c)") == "a b"
    assert len(calls) == 4
    for number in range(50):
        render.markdown(f"{number} " * 500)
    render.markdown("*a* [b](c)")
    assert len(calls) == 55


def test_concurrent_requests_for_one_text_render_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that many threads need at once is rendered once; a failed one is rendered again by the next."""
    monkeypatch.setattr(render, "CACHE", render.RenderCache(1 << 20))
    text, go, calls = "- a\n" * 500, threading.Event(), []

    def slow(*asked: Any) -> str:
        calls.append(asked)
        go.wait(120)
        if len(calls) == 1:
            raise Unavailable("too much at once")
        return "made"

    with ThreadPoolExecutor(4) as pool:
        crowd = [pool.submit(render.markdown, text, offload=slow) for _ in range(4)]
        go.set()
        assert {str(one.exception()) for one in crowd} <= {"too much at once", "None"}
    assert render.markdown(text, offload=slow) == "made"
    assert calls[-1] == (render._markdown, text, None)
    assert render.CACHE._rendering == {}


def test_costly_texts_are_recognised_without_a_parser() -> None:
    assert not limits.is_costly("A page of *prose* with a [link](x).\n\n" * 60)
    for costly in ("|a" * 20 + "\n" + "|-" * 20 + "\n" + "x\n" * 200, "*a* " * 600, "- a\n" * 400, "[" * 1_001):
        assert limits.is_costly(costly)


def test_the_first_words_of_a_text_never_cost_what_its_table_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_pages", lambda: pytest.fail("its cells are made"))
    table = "Words first.\n\n" + "|a" * 20 + "\n" + "|-" * 20 + "\n" + "x\n" * 200
    assert render.summary(table).startswith("Words first.")


def test_the_first_use_of_a_parser_may_be_concurrent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that is used before its rules are compiled would not render, or would never return."""
    for first in (render._pages, render._comments):
        first.cache_clear()
        parser = first()
        rulers = [parser.core.ruler, parser.block.ruler, parser.inline.ruler, parser.inline.ruler2]
        for ruler in rulers:
            monkeypatch.setattr(ruler, "__compile__", lambda: pytest.fail("rules are put together while others render"))
        assert "<em>b</em>" in parser.render("a *b*\n\n- c\n\n> d `e` [f](g)")


@pytest.fixture(scope="session")
def commonmark_examples(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the examples of the specification from markdown-it-py's source archive, which we do not commit."""
    folder = tmp_path_factory.mktemp("commonmark")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
    ]
    done = subprocess.run(
        [*command, "markdown-it-py", "-d", str(folder)],
        capture_output=True,
        timeout=120,
        cwd=folder,
        env=_own_environment(),
    )
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"markdown-it-py's source archive cannot be had here: {done.stderr.decode()[-200:]}")
    return _examples(archives[0])


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _examples(archive: Path) -> list[dict[str, Any]]:
    with tarfile.open(archive) as opened:
        name = next(name for name in opened.getnames() if name.endswith("test_cmark_spec/commonmark.json"))
        content = opened.extractfile(name)
        assert content is not None
        return json.loads(content.read())


def _normal(html: str) -> str:
    """Drop whitespace in empty blocks, as the specification's own test runner does."""
    return html.replace("<blockquote>\n</blockquote>", "<blockquote></blockquote>")


def test_every_example_of_commonmark_renders_as_specified(commonmark_examples: list[dict[str, Any]]) -> None:
    from markdown_it import MarkdownIt

    for renderer in (MarkdownIt("commonmark"), render._pages()):
        wrong = [
            one["example"]
            for one in commonmark_examples
            if _normal(renderer.render(one["markdown"])) != _normal(one["html"])
        ]
        assert (wrong, len(commonmark_examples)) == ([], 652)
    for one in commonmark_examples:
        assert dangers(render.markdown(one["markdown"]), render.TAGS) == []
