"""The front matter of text files, and the metadata files of pictures."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from squinney import checks
from squinney.content.nodes import access
from squinney.content.nodes.documents import Access, Node
from squinney.content.nodes.rules import checked_tags, checked_type
from squinney.errors import Invalid

TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL | re.MULTILINE)
YAML = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL | re.MULTILINE)
MAX_TEXT_BYTES = 8_000_000  # enough for an export of the longest text, with each letter escaped
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    # guard: a quoted 'false' is false
    **dict.fromkeys(("false", "no", "off", "0", ""), False),
}


@dataclass(frozen=True)
class Front:
    """The fields of the front matter, and the text after it. Its properties raise `Invalid` for a wrong value."""

    fields: dict[str, Any]
    text: str = ""

    def text_of(self, name: str, default: str = "") -> str:
        """Return a field as a string."""
        return str(self.fields.get(name) or default)

    def type(self, default: str) -> str:
        """Return the type of the node, or raise `Invalid`."""
        return checked_type(self.text_of("type", default))

    @property
    def tags(self) -> list[str] | None:
        """The tags, from a list or a comma-separated string; None if the field is missing."""
        if "tags" not in self.fields:
            return None
        tags = self.fields["tags"] or []
        if isinstance(tags, str):
            tags = [tag for tag in tags.split(",") if tag.strip()]
        if not isinstance(tags, list):
            raise Invalid("tags must be a list", field="tags")
        # guard: a slash in a tag is replaced
        return checked_tags([str(tag).replace("/", "-") for tag in tags])

    @property
    def is_draft(self) -> bool:
        """Whether the node is a draft."""
        value = self.fields.get("draft")
        drafted = BOOLEANS.get(str("" if value is None else value).strip().lower())
        if drafted is None:
            raise Invalid("draft must be true or false", field="draft")
        return drafted

    @property
    def date(self) -> datetime | None:
        """The time of publication; None if the field is missing."""
        value = self.fields.get("date")
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            message = "date must be a date, such as 2026-11-15, or a date and time"
            raise Invalid(message, field="date") from None
        return checks.time(moment if moment.tzinfo else moment.replace(tzinfo=UTC), "date")

    @property
    def access(self) -> Access | None:
        """The principals that may read and edit the node; None if the field is missing."""
        access_list = self.fields.get("access")
        return None if access_list is None else access.checked(access_list)


def read(file: Path) -> Front:
    """Read a text file, with front matter in YAML or TOML, or raise `Invalid`."""
    content = _content(file)
    # guard: TOML front matter is read
    for front_matter, parse in ((TOML, tomllib.loads), (YAML, yaml.safe_load)):
        if match := front_matter.match(content):
            return Front(_fields(match[1], parse), match[2])
    return Front({}, content)


def read_metadata(picture: Path) -> Front | None:
    """Read the metadata file of a picture, or raise `Invalid`; None if there is no such file."""
    file = metadata_file(picture)
    return Front(_fields(_content(file))) if file.is_file() else None


def metadata_file(picture: Path) -> Path:
    """Return the path of a picture's metadata file."""
    return picture.with_name(f"{picture.name}.yaml")


def _content(file: Path) -> str:
    if file.stat().st_size > MAX_TEXT_BYTES:
        raise Invalid(f"the file is larger than {MAX_TEXT_BYTES} bytes", field="file", limit=MAX_TEXT_BYTES)
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"cannot be read: {error}", field="file") from None


def _fields(text: str, parse: Callable[[str], Any] = yaml.safe_load) -> dict[str, Any]:
    try:
        fields = parse(text)
    except (yaml.YAMLError, ValueError) as error:  # wrong TOML, and a date such as 2026-13-01, is a ValueError
        raise Invalid(f"cannot be read: {error}", field="file") from None
    if fields is not None and not isinstance(fields, dict):
        raise Invalid("the front matter must have a name and a value on each line", field="file")
    return fields or {}


def file_text(node: Node, text: str) -> str:
    """Return the content of a node's text file, with front matter."""
    return f"---\n{_yaml(_fields_of(node))}---\n{text}"


def metadata_text(node: Node) -> str:
    """Return the content of a picture's metadata file."""
    detail = node["metadata"]["detail"]
    return _yaml({**_fields_of(node), **{name: detail[name] for name in ("alt", "text") if detail.get(name)}})


def _fields_of(node: Node) -> dict[str, Any]:
    metadata = node["metadata"]
    fields: dict[str, Any] = {
        "title": metadata["title"],
        "type": metadata["type"],
        "author": metadata["author"]["name"],
    }
    if metadata["tags"]:
        fields["tags"] = metadata["tags"]
    if metadata["detail"].get("summary"):
        fields["summary"] = metadata["detail"]["summary"]
    if metadata["published"]:
        fields["date"] = metadata["published"].isoformat()
    else:
        fields["draft"] = True
    if "access" in metadata:
        fields["access"] = metadata["access"]
    return fields


def _yaml(fields: dict[str, Any]) -> str:
    return str(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))
