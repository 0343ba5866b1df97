"""What identity refuses."""

from squinney.errors import Conflict, Forbidden, LimitReached, NotFound


class UnknownPerson(NotFound):
    """There is no such person."""

    code = "unknown-person"


class UnknownKey(NotFound):
    """There is no such API key."""

    code = "unknown-key"


class LoginTaken(Conflict):
    """Somebody else has this login."""

    code = "login-taken"


class SignInRefused(Forbidden):
    """The login or the password is wrong."""

    code = "sign-in-refused"


class KeyRefused(Forbidden):
    """The API key is missing, unknown, expired or revoked."""

    code = "key-refused"


class TooManyTries(LimitReached):
    """Too many attempts to sign in."""

    code = "too-many-tries"
