"""Printing results, pages of lists and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from bson import json_util
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from squinney.patterns.paging import Page

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # not tabs and newlines


class SafeConsole(Console):
    """A console on which stored text is only text: brackets and colons are not markup, and nothing controls it."""

    def render_str(self, text: str, **options: Any) -> Text:
        # guard: stored text cannot control the terminal
        return super().render_str(CONTROL.sub(" ", text), **options)


console = SafeConsole(markup=False, emoji=False)
errors = SafeConsole(stderr=True, markup=False, emoji=False)


def format_counts(counts: Mapping[str, Any]) -> str:
    """Format counts for the terminal: `finished: 1, swept: 2`."""
    return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "nothing to do"


def print_json(value: Any) -> None:
    """Print a value as JSON, with dates as ISO 8601 and ids as strings."""
    typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def print_line(line: str) -> None:
    """Print a line of text unchanged, without wrapping or highlighting it."""
    console.print(line, highlight=False, soft_wrap=True)


def print_result(value: Any, line: str, as_json: bool) -> None:
    """Print the result of a command: `value` as JSON, or else `line`."""
    if as_json:
        print_json(value)
    else:
        print_line(line)


def print_page(
    page: Page[Any], as_json: bool, columns: Sequence[str | Column], row: Callable[[Any], Sequence[str]]
) -> None:
    """Print a page of a list as JSON, or as a table followed by the cursor of the next page."""
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    table = Table(*columns)
    for item in page.items:
        table.add_row(*row(item))
    console.print(table)
    if page.next:
        print_line(f"more: --cursor {page.next}")


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    try:
        return json_util.default(value)
    except TypeError:
        return str(value)
