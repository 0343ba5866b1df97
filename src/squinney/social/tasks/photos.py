"""Photos of posts are kept elsewhere. What is left of those whose posts are gone is removed from there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from squinney.clock import Clock, utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.social import queries

KEPT = timedelta(hours=1)  # a photo is kept a moment before its post is written


class PhotoStore(Protocol):
    """Where the photos are: in another system, which is brought along."""

    def list(self, *, cursor: str | None = None) -> Page[Any]:
        """Photos with an `_id` and a `metadata` with `created` and the `author`."""

    def forget(self, photo: str, author_id: str) -> None:
        """Remove a photo of that author's."""


def forget_lost_photos(db: Db, store: PhotoStore, *, clock: Clock = utcnow) -> dict[str, int]:
    """Remove the photos that no post of their author's shows: a crash came between the two, the post was deleted over
    HTTP, or its author was erased.

    Atomic: each photo by itself.
    After a crash: the next run goes on.
    Raises: `Unavailable`.
    """
    old = clock() - KEPT
    removed, cursor = 0, None
    while True:
        page = store.list(cursor=cursor)
        shown = _shown(pinned(db), [one["_id"] for one in page.items])
        for one in page.items:
            author = one["metadata"]["author"]["_id"]
            if one["metadata"]["created"] < old and (one["_id"], author) not in shown:
                store.forget(one["_id"], author)
                removed += 1
        if (cursor := page.next) is None:
            return {"removed": removed}


def _shown(db: Db, photos: list[str]) -> set[tuple[str, str]]:
    found = queries.PHOTO_POSTS.find(db, photos=photos, projection={"by": 1, "detail.file": 1})
    return {(one["detail"]["file"], one["by"]) for one in found}
