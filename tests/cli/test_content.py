"""The commands of `squinney content`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Squinney
from tests.systems.content.pictures import jpeg

from squinney.mongo.schema import Db


def test_a_folder_goes_in_and_out(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "blog").mkdir(parents=True)
    (folder / "blog" / "hello.md").write_text("---\ntitle: Hello\n---\n![dawn](dawn.jpg)")
    (folder / "blog" / "dawn.jpg").write_bytes(jpeg())
    result = squinney("content", "import", str(folder), "--author", "ada", "--json")
    assert (result.returncode, json.loads(result.stdout)) == (0, {"pictures": 1, "created": 2})
    assert squinney("content", "import", str(folder)).stdout == "unchanged: 3\n"
    (folder / "paper.pdf").write_text("x")
    result = squinney("content", "import", str(folder))
    assert result.stdout == "skipped: 1, unchanged: 3\n"
    assert "skipped: paper.pdf is not Markdown" in result.stderr
    out = tmp_path / "out"
    assert squinney("content", "export", str(out), "--under", "/blog").stdout == "pages: 1, pictures: 1\n"
    assert "![dawn](dawn.jpg)" in (out / "hello.md").read_text()
    assert squinney("content", "delete-leftovers").stdout == "nothing to do\n"


def test_what_cannot_be_done_is_one_sentence(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("---\ntype: novel\n---\n")
    for code, sentence, arguments in [
        (2, "a.md: type must be one of", ["import", str(tmp_path)]),
        (3, "there is no", ["import", str(tmp_path), "--under", "/nowhere"]),
        (3, "there is no", ["export", str(tmp_path / "out"), "--under", "/No Such"]),
        (70, "Not a directory", ["export", str(file / "out")]),
    ]:
        result = squinney("content", *arguments)
        assert (result.returncode, result.stdout) == (code, ""), result.stderr
        assert sentence in result.stderr
        assert len(result.stderr.splitlines()) == 1
