"""The errors of the social network."""

from squinney.errors import Conflict, Forbidden, LimitReached, NotFound


class UnknownUser(NotFound):
    """The user is not a member, or has left."""


class UnknownPost(NotFound):
    """The post or comment does not exist, or the viewer may not see it."""


class AlreadyJoined(Conflict):
    """The user is a member, or was one and has left."""


class Blocked(Forbidden):
    """The member has blocked the other. (To a member who was blocked, the other looks unknown.)"""


class SocialLimit(LimitReached):
    """The member has reached the limit for circles, people in circles, blocks or mutes."""
