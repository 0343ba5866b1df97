"""Detecting edit conflicts: each version of a document has a nonce, and an edit must name the one it is based on.

`edit` does this for one document. A multi-document operation uses the parts: `stamped` for the update, the nonce in its
guard, and `conflict` for the error.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from squinney.errors import Conflict, NotFound
from squinney.mongo.paths import value_at
from squinney.mongo.schema import Document

Update = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Base = Callable[[str], Any]


class EditConflict(Conflict):
    """Another user has changed it since; merge the two versions and save again.

    The versions are attributes and not `details`, since `details` are shown to every caller, and the system must decide
    who may see a stored document.
    """

    def __init__(self, message: str = "", *, theirs: Any = None, yours: Any = None, base: Any = None) -> None:
        super().__init__(message)
        self.theirs = theirs
        self.yours = yours
        self.base = base


def new_nonce() -> str:
    """Return 96 random bits as 16 characters."""
    return secrets.token_urlsafe(12)


def edit(
    collection: Collection[Document],
    where: Mapping[str, Any],
    nonce: str,
    update: Update,
    *,
    field: str = "nonce",
    new: str | None = None,
    yours: Any = None,
    base: Base | None = None,
    session: ClientSession | None = None,
) -> Document:
    """Apply `update` to the document that `where` matches if it still has `nonce`; return the changed document.

    `yours` and `base` are only used for the error: the caller's version, and a function that returns the version with a
    given nonce. With a chosen `new` nonce, an edit whose outcome is unknown may be repeated: the repeat finds that
    nonce and returns the document.

    Raises: `NotFound`; `EditConflict` with their version, yours and the base; nothing is changed then.
    """
    new = new or new_nonce()
    changed = collection.find_one_and_update(
        # guard: a nonce must be a string
        # guard: an edit applies only to the version it is based on
        {"$and": [where, {field: _plain(nonce)}]},
        stamped(update, new, field=field),
        return_document=ReturnDocument.AFTER,
        # guard: an edit is part of its transaction
        session=session,
    )
    if changed is not None:
        return changed
    current = collection.find_one(where, session=session)
    # guard: a repeated edit returns the document it has changed
    if current is not None and value_at(current, field) == new:
        return current
    raise conflict(current, nonce, yours=yours, base=base)


def stamped(update: Update, new: str, *, field: str = "nonce") -> Any:
    """Return the update (operators or a pipeline) extended to set the new nonce."""
    if not isinstance(update, Mapping):
        # guard: a nonce is not evaluated as an expression
        return [*update, {"$set": {field: {"$literal": new}}}]
    # guard: an update must not change the nonce
    if any(_overlap(field, path) for fields in update.values() for path in fields):
        raise ValueError(f"an edit must not change {field}")
    # guard: an edit sets a new nonce
    return {**update, "$set": {**update.get("$set", {}), field: new}}


def conflict(current: Any, nonce: str, *, yours: Any = None, base: Base | None = None) -> NotFound | EditConflict:
    """Return the error for an edit whose nonce did not match `current`, the stored document."""
    if current is None:
        return NotFound()
    return EditConflict(theirs=current, yours=yours, base=base(nonce) if base else None)


def _overlap(path: str, other: str) -> bool:
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def _plain(nonce: Any) -> str:
    if not isinstance(nonce, str):
        raise EditConflict("the nonce must be a string")
    return nonce
