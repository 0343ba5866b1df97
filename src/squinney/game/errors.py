"""What the world refuses."""

from squinney.errors import Conflict, LimitReached, NotFound, TooManyRequests


class UnknownCharacter(NotFound):
    """There is no such character."""


class UnknownThing(NotFound):
    """There is no such thing."""


class UnknownLocation(NotFound):
    """There is no such room."""


class NameTaken(Conflict):
    """Another character has that name."""


class NoExit(Conflict):
    """No way leads there."""


class OutOfReach(Conflict):
    """It is not where this character could reach it."""


class InUse(Conflict):
    """It is worn or wielded; take it off first."""


class NotMadeForThat(Conflict):
    """It cannot be used like that."""


class IntoItself(Conflict):
    """A thing cannot be put into itself, nor into what it holds."""


class NotForSale(Conflict):
    """Nobody trades in that here."""


class NotEnoughGold(Conflict):
    """There is not enough gold."""


class TooHeavy(LimitReached):
    """It is more than they can carry, or it can hold."""


class NoSpace(LimitReached):
    """There are too many things already, or they are nested too deep."""


class TooFast(TooManyRequests):
    """A player does too much within a minute."""
