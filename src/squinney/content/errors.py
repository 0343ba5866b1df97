"""The errors of the content system."""

from __future__ import annotations

from squinney.errors import Conflict, Invalid, LimitReached, NotFound


class UnknownNode(NotFound):
    """The node does not exist, or the viewer may not see it."""


class UnknownComment(NotFound):
    """The comment does not exist."""


class NotEmpty(Conflict):
    """The node still has children."""


class StrategyCannot(Conflict):
    """The discussion's storage strategy does not support this operation."""


class UploadLost(Conflict):
    """The upload was silent for too long and was given up; start the upload again."""


class BadMedia(Invalid):
    """The uploaded file is not an accepted image or video, or it is broken or too large."""


class DiscussionFull(LimitReached):
    """The embedded discussion would become too large for its document; convert it to another strategy."""
