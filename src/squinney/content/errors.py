"""What content refuses."""

from __future__ import annotations

from typing import Any

from squinney.errors import Conflict, Invalid, LimitReached, NotFound


class UnknownNode(NotFound):
    """There is no such page, or the viewer may not see it."""

    code = "unknown-node"


class UnknownComment(NotFound):
    """There is no such comment."""

    code = "unknown-comment"


class EditConflict(Conflict):
    """Somebody else has saved since; carries the base, their version and yours."""

    code = "edit-conflict"

    def __init__(self, message: str = "", *, base: Any = None, theirs: Any = None, mine: Any = None) -> None:
        super().__init__(message, base=base, theirs=theirs, mine=mine)
        self.base = base
        self.theirs = theirs
        self.mine = mine


class SlugTaken(Conflict):
    """The parent has a node with that slug already."""

    code = "slug-taken"


class NotEmpty(Conflict):
    """The node still has children."""

    code = "not-empty"


class StrategyCannot(Conflict):
    """The discussion's storage strategy cannot do this."""

    code = "strategy-cannot"


class UploadLost(Conflict):
    """The upload stood still for too long and was given up; start it again."""

    code = "upload-lost"


class BadMedia(Invalid):
    """The bytes are not an image or video that is accepted."""

    code = "bad-media"


class DiscussionFull(LimitReached):
    """An embedded discussion would outgrow its document; convert it to another strategy."""

    code = "discussion-full"
