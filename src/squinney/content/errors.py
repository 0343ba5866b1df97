"""What content refuses."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid, LimitReached, NotFound


class UnknownNode(NotFound):
    """There is no such page, or the viewer may not see it."""

    code = "unknown-node"


class UnknownComment(NotFound):
    """There is no such comment."""

    code = "unknown-comment"


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
