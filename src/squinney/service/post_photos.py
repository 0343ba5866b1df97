"""Photos of posts: the social network shows what the content system keeps."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from squinney.assembly import kept_photos
from squinney.content.files.kept_photos import KeptPhotos
from squinney.content.surface.assets import asset_response
from squinney.system import Assembled


class PostPhotos:
    """The kept photos, as the network's pages need them. Who may see one is decided by the post that shows it."""

    def __init__(self, photos: KeptPhotos) -> None:
        self.keep = photos.keep
        self.forget = photos.forget
        self._open = photos.open

    def answer(self, request: Request, photo: str, author_id: str) -> Response:
        """The photo, if it was kept for that author: any other file is none of a post's business.

        Raises: `NotFound`.
        """
        return asset_response(request, self._open(photo, author_id), cache="private, no-cache")


def post_photos(systems: Assembled) -> PostPhotos | None:
    """The store, where both systems are served."""
    content = systems.services.get("content")
    if content is None or "social" not in systems.services:
        return None
    return PostPhotos(kept_photos(content["nodes"], content["photos"]))
