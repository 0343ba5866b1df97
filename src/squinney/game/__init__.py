"""System 13: a role-playing world of rooms, things and characters."""

from squinney.errors import TooFast
from squinney.game.demo import demo
from squinney.game.documents import COLLECTIONS, Character, Entry, Event, Item, Location
from squinney.game.errors import (
    IntoItself,
    InUse,
    NameTaken,
    NoExit,
    NoSpace,
    NotEnoughGold,
    NotForSale,
    NotMadeForThat,
    OutOfReach,
    TooHeavy,
    UnknownCharacter,
    UnknownLocation,
    UnknownThing,
)
from squinney.game.queries import QUERIES
from squinney.game.repair import find_problems, repair
from squinney.game.room_copies import Copies
from squinney.game.world import World

__all__ = [
    "COLLECTIONS",
    "QUERIES",
    "Character",
    "Copies",
    "Entry",
    "Event",
    "InUse",
    "IntoItself",
    "Item",
    "Location",
    "NameTaken",
    "NoExit",
    "NoSpace",
    "NotEnoughGold",
    "NotForSale",
    "NotMadeForThat",
    "OutOfReach",
    "TooFast",
    "TooHeavy",
    "UnknownCharacter",
    "UnknownLocation",
    "UnknownThing",
    "World",
    "demo",
    "find_problems",
    "repair",
]
