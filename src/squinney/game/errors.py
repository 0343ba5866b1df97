"""What the world refuses."""

from squinney.errors import Conflict, LimitReached, NotFound


class UnknownCharacter(NotFound):
    """There is no such character."""

    code = "unknown-character"


class UnknownThing(NotFound):
    """There is no such thing."""

    code = "unknown-thing"


class UnknownLocation(NotFound):
    """There is no such room."""

    code = "unknown-location"


class NameTaken(Conflict):
    """Another character has that name."""

    code = "name-taken"


class NoExit(Conflict):
    """No way leads there."""

    code = "no-exit"


class OutOfReach(Conflict):
    """It is not where this character could reach it."""

    code = "out-of-reach"


class InUse(Conflict):
    """It is worn or wielded; take it off first."""

    code = "in-use"


class NotMadeForThat(Conflict):
    """It cannot be used like that."""

    code = "not-made-for-that"


class IntoItself(Conflict):
    """A thing cannot be put into itself, nor into what it holds."""

    code = "into-itself"


class NotForSale(Conflict):
    """Nobody trades in that here."""

    code = "not-for-sale"


class NotEnoughGold(Conflict):
    """There is not enough gold."""

    code = "not-enough-gold"


class TooHeavy(LimitReached):
    """It is more than they can carry, or it can hold."""

    code = "too-heavy"


class NoSpace(LimitReached):
    """There are too many things already, or they are nested too deep."""

    code = "no-space"
