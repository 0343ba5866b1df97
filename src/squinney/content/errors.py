"""What content refuses."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid, LimitReached, NotFound


class UnknownNode(NotFound):
    """There is no such page, or the viewer may not see it."""


class UnknownComment(NotFound):
    """There is no such comment."""


class SlugTaken(Conflict):
    """The parent has a node with that slug already."""


class NotEmpty(Conflict):
    """The node still has children."""


class StrategyCannot(Conflict):
    """The discussion's storage strategy cannot do this."""


class UploadLost(Conflict):
    """The upload stood still for too long and was given up; start it again."""


class BadMedia(Invalid):
    """The bytes are not an image or video that is accepted."""


class DiscussionFull(LimitReached):
    """An embedded discussion would outgrow its document; convert it to another strategy."""
