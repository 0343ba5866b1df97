"""Photos of posts: the social network keeps them among the content system's files."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import Request
from starlette.responses import Response

from squinney.content import Author, Node, Nodes, Photos, SlugTaken, UnknownNode
from squinney.content.surface.assets import asset_response
from squinney.errors import NotFound
from squinney.patterns.ids import new_id
from squinney.system import Assembled

FOLDER = "photos-of-posts"
KEEPER: Author = {"_id": "social", "name": "Social"}


class PostPhotos:
    """Each photo is a draft in a folder of drafts: on the site nobody but its author and admins finds it.

    Who may see it is decided by the post that shows it.
    """

    def __init__(self, nodes: Nodes, photos: Photos) -> None:
        self._nodes = nodes
        self._photos = photos

    def keep(self, stream: Any, author_id: str, name: str) -> str:
        """Store a photo; returns its id.

        Raises: `BadMedia`, `UploadLost`, `Unavailable`.
        """
        author: Author = {"_id": author_id, "name": name}
        return self._photos.upload(stream, self._folder(), new_id(), author=author, title="A photo of a post")["_id"]

    def answer(self, request: Request, photo: str, author_id: str) -> Response:
        """The photo, if it was kept here for that author: any other file is none of a post's business.

        Raises: `NotFound`.
        """
        return asset_response(request, self._photos.open(self._kept(photo, author_id)), cache="private, no-cache")

    def forget(self, photo: str, author_id: str) -> None:
        """Remove a photo whose post is gone; one that is not here, or not that author's, is left alone.

        Raises: `Unavailable`.
        """
        with suppress(NotFound):
            self._photos.remove(self._kept(photo, author_id))

    def _kept(self, photo: str, author_id: str) -> Node:
        node = self._nodes.by_id(photo)
        if node["metadata"]["parent_id"] != self._folder()["_id"] or node["metadata"]["author"]["_id"] != author_id:
            raise NotFound("there is no such photo")
        return node

    def _folder(self) -> Node:
        try:
            return self._nodes.get(None, FOLDER)
        except UnknownNode:
            with suppress(SlugTaken):  # another was faster
                self._nodes.create(None, FOLDER, "folder", "Photos of posts", KEEPER)
            return self._nodes.get(None, FOLDER)


def post_photos(systems: Assembled) -> PostPhotos | None:
    """The store, where both systems are served."""
    content = systems.services.get("content")
    if content is None or "social" not in systems.services:
        return None
    return PostPhotos(content["nodes"], content["photos"])
