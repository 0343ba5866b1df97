"""Deletes photos whose posts no longer exist. Another system stores the photos."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from squinney.clock import Clock, utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page
from squinney.social import queries

KEPT = timedelta(hours=1)  # a photo is stored shortly before its post is written


class StoredPhotos(Protocol):
    """The interface of the system that stores photos, as this job needs it."""

    def list(self, *, cursor: str | None = None) -> Page[Any]:
        """Return photos, each with an `_id` and a `metadata` with `created` and `author`."""

    def forget(self, photo: str, author_id: str) -> None:
        """Delete a photo by this author."""


def forget_lost_photos(db: Db, store: StoredPhotos, *, clock: Clock = utcnow) -> dict[str, int]:
    """Delete photos that are an hour old and that no post by their author shows.

    They remain when a process crashes between storing the photo and writing the post, when a post is deleted over HTTP,
    and when its author is erased.

    Atomic: each photo by itself.
    After a crash: the next run continues.
    Raises: `Unavailable`.
    """
    old = clock() - KEPT
    removed, cursor = 0, None
    while True:
        page = store.list(cursor=cursor)
        shown = _shown(pinned(db), [item["_id"] for item in page.items])
        for photo in page.items:
            author = photo["metadata"]["author"]["_id"]
            # guard: a photo whose post is not written yet is kept
            if photo["metadata"]["created"] < old and (photo["_id"], author) not in shown:
                store.forget(photo["_id"], author)
                removed += 1
        if (cursor := page.next) is None:
            return {"removed": removed}


def _shown(db: Db, photos: list[str]) -> set[tuple[str, str]]:
    posts = queries.PHOTO_POSTS.find(db, photos=photos, projection={"by": 1, "detail.file": 1})
    return {(post["detail"]["file"], post["by"]) for post in posts}
