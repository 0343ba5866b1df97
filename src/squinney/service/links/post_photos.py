"""Photos of posts: the content system stores them, the social network shows them."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from squinney.assembly import kept_photos
from squinney.content.photos.kept_photos import KeptPhotos
from squinney.content.surface.assets import asset_response
from squinney.system import Assembled


class PostPhotos:
    """Stores and serves photos for the pages of the social network. The post decides who may see its photo."""

    def __init__(self, photos: KeptPhotos) -> None:
        self.keep = photos.keep
        self.forget = photos.forget
        self._open = photos.open

    def response(self, request: Request, photo: str, author_id: str) -> Response:
        """Return a response with the photo, if it was stored for this author: a post cannot serve other files.

        Raises: `NotFound`.
        """
        return asset_response(request, self._open(photo, author_id), cache="private, no-cache")


def post_photos(systems: Assembled) -> PostPhotos | None:
    """Return the store of photos, or None unless both systems are served."""
    content = systems.services.get("content")
    if content is None or "social" not in systems.services:
        return None
    return PostPhotos(kept_photos(content["nodes"], content["photos"]))
