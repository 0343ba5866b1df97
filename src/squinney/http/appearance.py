"""How a site looks: its name, logo, colours and templates, which a folder named in a setting can replace.

Every file of the folder is optional:

```
site.toml             name = "Harbour Records", footer = "..."
static/logo.svg       or logo.png; also the icon of the browser's tab
static/site.css       loaded after ours, for colours: `:root { --accent: #0a5c8a; }`
static/               files of your own, at /static/appearance/
templates/            replaces our templates of the same name, such as `base.html` or `ledger/index.html`;
                      ours are then `squinney/base.html` and so on
```
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squinney import __version__
from squinney.errors import Invalid

URL = "/static/appearance"
LOGOS = ("logo.svg", "logo.png")
KNOWN = {"name", "footer"}
MAX_LENGTH = 200


@dataclass(frozen=True)
class Appearance:
    """What templates show as `site`. `folder` has the files of the site, if it replaces any."""

    name: str = "Squinney"
    footer: str = f"Squinney {__version__}: back ends on MongoDB that survive a crash after any write."
    logo: str = "/static/icon.svg"
    stylesheet: str = ""
    folder: Path | None = None

    @property
    def templates(self) -> list[Path]:
        """The folder with templates that replace ours, if there is one."""
        return [self.folder / "templates"] if self.folder else []

    @property
    def static(self) -> Path | None:
        """The folder with the site's own static files, if there is one."""
        folder = self.folder / "static" if self.folder else None
        return folder if folder and folder.is_dir() else None


def appearance_in(folder: Path | None) -> Appearance:
    """Return how a site looks with the files of this folder.

    Raises: `Invalid` if the folder does not exist, or its `site.toml` is malformed.
    """
    if folder is None:
        return Appearance()
    if not folder.is_dir():
        raise Invalid(f"appearance: there is no folder {folder}", field="appearance")
    replaced = dict(_texts(folder / "site.toml"))
    if logo := next((name for name in LOGOS if (folder / "static" / name).is_file()), ""):
        replaced["logo"] = f"{URL}/{logo}"
    if (folder / "static" / "site.css").is_file():
        replaced["stylesheet"] = f"{URL}/site.css"
    if "name" in replaced:
        replaced.setdefault("footer", replaced["name"])
    return Appearance(**replaced, folder=folder)


def _texts(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        texts: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"appearance: {file} is not TOML: {error}", field="appearance") from None
    for name, value in texts.items():
        if name not in KNOWN or not isinstance(value, str) or not 0 < len(value) <= MAX_LENGTH:
            known = " and ".join(sorted(KNOWN))
            wrong = f"appearance: {name} in {file}: only {known}, texts of 1 to {MAX_LENGTH} characters, are allowed"
            raise Invalid(wrong, field="appearance")
    return texts
