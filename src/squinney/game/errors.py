"""The errors that the world raises."""

from squinney.errors import Conflict, LimitReached, NotFound


class UnknownCharacter(NotFound):
    """No character has that id or name."""


class UnknownThing(NotFound):
    """No thing has that id."""


class UnknownLocation(NotFound):
    """No room has that id."""


class NameTaken(Conflict):
    """Another character has that name."""


class NoExit(Conflict):
    """The room has no exit in that direction, or the exit leads to no room."""


class OutOfReach(Conflict):
    """The thing or character is not where the acting character can reach it."""


class InUse(Conflict):
    """The thing is worn or wielded and must be taken off first, or that body region or hand is occupied."""


class NotMadeForThat(Conflict):
    """The thing is of a kind that cannot be used like that."""


class IntoItself(Conflict):
    """A container cannot be put into itself or into its own contents."""


class NotForSale(Conflict):
    """The character is not a shopkeeper, or does not sell that thing."""


class NotEnoughGold(Conflict):
    """The buyer has less gold than the price."""


class TooHeavy(LimitReached):
    """The weight is more than the character can carry or the container can hold."""


class NoSpace(LimitReached):
    """The character or container holds too many things already, or containers would be nested too deep."""
