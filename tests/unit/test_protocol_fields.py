"""Only the ledger and its own protocol know the fields of a two-phase run; to all others a document is a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Not the index `txn_1` of an older version, which is dropped when its collection is renamed.
FIELDS = re.compile(r"(?<![\w-])(txn_(?!checks\b|1\b)\w+|txns|tombs)(?![\w-])")
THEIR_OWN = ("src/squinney/ledger/", "src/squinney/transactions/two_phase/", "docs/two-phase.md")
BUILT = "docs/_build/"
SUFFIXES = {".py", ".md", ".html", ".js", ".toml"}


def lines_with(*, theirs: bool) -> Iterator[str]:
    """Yield the lines of sources and documentation that name such a field."""
    for path in [path for folder in ("src", "examples", "docs") for path in (ROOT / folder).rglob("*")]:
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(BUILT) or name.startswith(THEIR_OWN) != theirs or path.suffix not in SUFFIXES:
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if FIELDS.search(line):
                yield f"{name}:{number}: {line.strip()}"


def test_no_other_code_or_page_names_a_field_of_the_protocol() -> None:
    assert list(lines_with(theirs=False)) == []


def test_the_fields_are_found_where_they_belong() -> None:
    assert list(lines_with(theirs=True))


def test_every_old_name_is_found_and_the_checks_are_not() -> None:
    for name in ("txn_lock", "txns", "txn_stub", "tombs", "txn_limit"):
        assert FIELDS.search(f'{{"{name}": None}}')
        assert FIELDS.search(f"{name}.0")
    assert not FIELDS.search('{"txn_checks": 1}')
