"""What the social network refuses."""

from squinney.errors import Conflict, Forbidden, LimitReached, NotFound, TooManyRequests


class UnknownUser(NotFound):
    """There is no such member, or they have left."""

    code = "unknown-user"


class UnknownPost(NotFound):
    """There is no such post or comment, or it is not for this viewer."""

    code = "unknown-post"


class AlreadyJoined(Conflict):
    """That person is a member already, or was one."""

    code = "already-joined"


class Blocked(Forbidden):
    """One of the two has blocked the other."""

    code = "blocked"


class SocialLimit(LimitReached):
    """A member has as many circles, people, blocks or mutes as they may have."""

    code = "social-limit"


class TooFast(TooManyRequests):
    """Too many posts, comments or changes of circles within a minute."""

    code = "too-fast"
