"""Read a world from a file or a folder, with the reader for its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from squinney.errors import Invalid
from squinney.game.loading import circle, yaml_and_json
from squinney.game.loading.blueprint import Blueprint

CIRCLE = (".wld", ".mob", ".obj", ".shp", ".zon")
PLAIN = (".yaml", ".yml", ".json")
MAX_BYTES = 64 << 20


def read_world(path: Path | str) -> Blueprint:
    """Return the world in a file, or in a folder of CircleMUD files.

    Raises: `Invalid` if the file does not exist or is not in a known format.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in CIRCLE)
        if not files:
            raise Invalid(f"{path} contains no files that end with {', '.join(CIRCLE)}", field="file")
        return circle.read([(file.name, _text(file)) for file in files])
    if not path.is_file():
        raise Invalid(f"there is no file {path}", field="file")
    if path.suffix in CIRCLE:
        return circle.read([(path.name, _text(path))])
    if path.suffix not in PLAIN:
        raise Invalid(f"{path.name} must end with {', '.join((*PLAIN, *CIRCLE))}", field="file")
    return yaml_and_json.read(path.name, _parsed(path))


def _text(path: Path) -> str:
    if path.stat().st_size > MAX_BYTES:
        raise Invalid(f"{path.name} is larger than {MAX_BYTES} bytes", field="file", limit=MAX_BYTES)
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # most worlds are older than UTF-8


def _parsed(path: Path) -> Any:
    text = _text(path)
    try:
        if path.suffix == ".json":
            return json.loads(text)
        import yaml  # optional: only YAML worlds need it

        return yaml.safe_load(text)
    except ImportError:
        raise Invalid("a YAML world needs `pip install pyyaml`", field="file") from None
    except Exception as error:  # PyYAML may be missing, so its error class cannot be named here
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise Invalid(f"{path.name} is not valid {kind}: {error}", field="file") from None
