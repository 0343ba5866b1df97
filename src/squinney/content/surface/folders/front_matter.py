"""What a file says of itself: the front matter of a text, the notes beside a picture."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import yaml

from squinney.content import Access, Node
from squinney.content.nodes import access
from squinney.content.nodes.rules import checked_tags, checked_type
from squinney.errors import Invalid

TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL | re.MULTILINE)
FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL | re.MULTILINE)
MOST_TEXT_BYTES = 8_000_000  # what export writes of the longest text, each letter escaped
ANSWERS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0", ""), False),
}


@dataclass(frozen=True)
class Front:
    """What the front matter says, and the text behind it."""

    fields: dict[str, Any]
    text: str = ""

    def word(self, name: str, otherwise: str = "") -> str:
        """A field as a string."""
        return str(self.fields.get(name) or otherwise)

    def type(self, usual: str) -> str:
        """The type of node.

        Raises: `Invalid`.
        """
        return checked_type(self.word("type", usual))

    @property
    def tags(self) -> list[str] | None:
        """The tags, as a list or with commas between them; None where nothing is said of them.

        Raises: `Invalid`.
        """
        if "tags" not in self.fields:
            return None
        found = self.fields["tags"] or []
        if isinstance(found, str):
            found = [tag for tag in found.split(",") if tag.strip()]
        if not isinstance(found, list):
            raise Invalid("tags must be a list", field="tags")
        return checked_tags([str(tag).replace("/", "-") for tag in found])

    @property
    def is_draft(self) -> bool:
        """Whether it is not to be published.

        Raises: `Invalid`.
        """
        value = self.fields.get("draft")
        found = ANSWERS.get(str("" if value is None else value).strip().lower())
        if found is None:
            raise Invalid("draft must be true or false", field="draft")
        return found

    @property
    def date(self) -> datetime | None:
        """When it is published; None where nothing is said of it.

        Raises: `Invalid`.
        """
        value = self.fields.get("date")
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise _no_date() from None
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if value is not None and not isinstance(value, date):
            raise _no_date()
        return datetime.combine(value, time(), UTC) if value else None

    @property
    def access(self) -> Access | None:
        """Who may read and edit it; None where nothing is said of it.

        Raises: `Invalid`.
        """
        found = self.fields.get("access")
        return None if found is None else access.checked(found)


def _no_date() -> Invalid:
    return Invalid("date must be a date", field="date")


def read(file: Path) -> Front:
    """The front matter and the text behind it.

    Raises: `Invalid`.
    """
    whole = _whole(file)
    if found := TOML.match(whole):
        return Front(_toml(found[1]), found[2])
    found = FRONT.match(whole)
    return Front(_fields(found[1]), found[2]) if found else Front({}, whole)


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"cannot be read: {error}", field="file") from None


def read_notes(picture: Path) -> Front | None:
    """What the file beside a picture says of it; None where there is no such file.

    Raises: `Invalid`.
    """
    notes = notes_of(picture)
    return Front(_fields(_whole(notes))) if notes.is_file() else None


def notes_of(picture: Path) -> Path:
    """The file beside a picture."""
    return picture.with_name(f"{picture.name}.yaml")


def _whole(file: Path) -> str:
    if file.stat().st_size > MOST_TEXT_BYTES:
        raise Invalid(f"larger than {MOST_TEXT_BYTES} bytes", field="file", limit=MOST_TEXT_BYTES)
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"cannot be read: {error}", field="file") from None


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-13-01 is a ValueError
        raise Invalid(f"cannot be read: {error}", field="file") from None
    if fields is not None and not isinstance(fields, dict):
        raise Invalid("the front matter must be names and values", field="file")
    return fields or {}


def written(node: Node, text: str) -> str:
    """A text with its front matter."""
    return f"---\n{_yaml(about(node))}---\n{text}"


def written_notes(node: Node) -> str:
    """The notes beside a picture."""
    detail = node["metadata"]["detail"]
    return _yaml({**about(node), **{name: detail[name] for name in ("alt", "text") if detail.get(name)}})


def about(node: Node) -> dict[str, Any]:
    """What front matter says of a node."""
    metadata = node["metadata"]
    found: dict[str, Any] = {"title": metadata["title"], "type": metadata["type"], "author": metadata["author"]["name"]}
    if metadata["tags"]:
        found["tags"] = metadata["tags"]
    if metadata["detail"].get("summary"):
        found["summary"] = metadata["detail"]["summary"]
    if metadata["published"]:
        found["date"] = metadata["published"].isoformat()
    else:
        found["draft"] = True
    if "access" in metadata:
        found["access"] = metadata["access"]
    return found


def _yaml(fields: dict[str, Any]) -> str:
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))
