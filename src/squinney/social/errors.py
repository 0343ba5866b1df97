"""What the social network refuses."""

from squinney.errors import Conflict, Forbidden, LimitReached, NotFound, TooManyRequests


class UnknownUser(NotFound):
    """There is no such member, or they have left."""


class UnknownPost(NotFound):
    """There is no such post or comment, or it is not for this viewer."""


class AlreadyJoined(Conflict):
    """That person is a member already, or was one."""


class Blocked(Forbidden):
    """One of the two has blocked the other."""


class SocialLimit(LimitReached):
    """A member has as many circles, people, blocks or mutes as they may have."""


class TooFast(TooManyRequests):
    """Too many posts, comments or changes of circles within a minute."""
