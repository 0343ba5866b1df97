"""Photos for another system, which decides who may see them: drafts in a draft folder, kept for that system."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from squinney.content.documents import Author
from squinney.content.errors import UnknownNode
from squinney.content.nodes.access import is_kept
from squinney.content.nodes.documents import Node
from squinney.content.nodes.nodes import Nodes
from squinney.content.photos.photos import Asset, Photos
from squinney.errors import NotFound, SlugTaken
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page

A_PAGE = 100


class KeptPhotos:
    """Stores photos for another system. On the site, only their authors and admins can see them, and no API key."""

    def __init__(self, nodes: Nodes, photos: Photos, *, folder: str, title: str, keeper: Author) -> None:
        self._nodes = nodes
        self._photos = photos
        self._slug, self._title, self._keeper = folder, title, keeper

    def keep(self, stream: Any, author_id: str, name: str) -> str:
        """Store a photo and return its id.

        Atomic: as `Photos.upload`.
        After a crash: as `Photos.upload`; the folder may exist without a photo.
        Raises: `BadMedia`, `UploadLost`, `Unavailable`.
        """
        author: Author = {"_id": author_id, "name": name}
        kept_for = self._keeper["_id"]
        node = self._photos.upload(
            stream, self._folder(), new_id(), author=author, title=self._title, kept_for=kept_for
        )
        return node["_id"]

    def open(self, photo: str, author_id: str) -> Asset:
        """Open the photo if it was stored here for this author, else raise `NotFound`."""
        return self._photos.open(self._find(photo, author_id))

    def forget(self, photo: str, author_id: str) -> None:
        """Remove a photo if it was stored here for this author; otherwise do nothing.

        Atomic: as `Nodes.remove`.
        After a crash: as `Nodes.remove`.
        Raises: `Unavailable`.
        """
        with suppress(NotFound):
            self._photos.remove(self._find(photo, author_id))

    def list(self, *, cursor: str | None = None) -> Page[Node]:
        """Return a page of the stored photos, oldest first, and mark those that are not marked as kept yet."""
        try:
            folder = self._nodes.get(None, self._slug)
        except UnknownNode:
            return Page([])
        # Photos that an older version of this program has stored, or stores now beside this one.
        # guard: photos that an older version stored are marked by the job
        self._nodes.keep_children(folder, self._keeper["_id"])
        return self._nodes.children(folder, cursor=cursor, limit=A_PAGE)

    def _find(self, photo: str, author_id: str) -> Node:
        node = self._nodes.by_id(photo)
        if node["metadata"]["parent_id"] != self._folder()["_id"] or node["metadata"]["author"]["_id"] != author_id:
            raise NotFound("there is no such photo")
        return node

    def _folder(self) -> Node:
        kept_for = self._keeper["_id"]
        try:
            folder = self._nodes.get(None, self._slug)
        except UnknownNode:
            with suppress(SlugTaken):  # created by another process in the meantime
                self._nodes.create(None, self._slug, "folder", "Photos of posts", self._keeper, kept_for=kept_for)
            folder = self._nodes.get(None, self._slug)
        # guard: photos that an older version stored are marked when one is added
        if not is_kept(folder):  # stored by an older version of this program
            self._nodes.keep_children(folder, kept_for)
        return folder
