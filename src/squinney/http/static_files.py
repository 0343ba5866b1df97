"""Static files with an address for each version, which browsers keep for good."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOR_GOOD = "public, max-age=31536000, immutable"
LINK = re.compile(r'(\b(?:href|src)="[^"?#]*/static/[^"?#]+)"')


class VersionedFiles(StaticFiles):
    """The files of a folder. Where the address names a version (`?v=...`), a browser need not ask again."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file; it may be kept for good if the address names its version."""
        response = await super().get_response(path, scope)
        if response.status_code == 200 and scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = FOR_GOOD
        return response


def version_of(folders: Iterable[str | PathLike[str]]) -> str:
    """Return a short text that differs when any file of the folders differs."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            digest.update(f"{file.relative_to(folder)}\n{file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def with_versions(page: str, version: str) -> str:
    """Add the version to the address of each static file in a page, so that no template can forget it."""
    return LINK.sub(rf'\1?v={version}"', page)
