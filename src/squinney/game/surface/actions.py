"""The table of actions. The routes of the API, the forms of the page and the typed commands are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from squinney.errors import Invalid, NotFound
from squinney.game import (
    Character,
    Event,
    IntoItself,
    InUse,
    NoExit,
    NoSpace,
    NotEnoughGold,
    NotForSale,
    NotMadeForThat,
    TooHeavy,
    UnknownLocation,
    World,
)
from squinney.game.surface import grammar, models
from squinney.game.surface.grammar import Call
from squinney.http.bodies import Body
from squinney.transactions import Key

ReadWords = Callable[[World, Character, str], list[Call]]


@dataclass(frozen=True)
class Action:
    """An action of a character: its name in addresses, the method of `World`, and the fields that it takes.

    A player types one of its `commands`, followed by words that `read` turns into calls; `usage` is the help for that.
    `by_players` is False for what only programs do.
    """

    name: str
    method: Callable[..., Event]
    fields: type[Body]
    errors: Sequence[type[Any]] = ()
    commands: Sequence[str] = ()
    read: ReadWords | None = None
    usage: str = ""
    by_players: bool = True

    @property
    def what(self) -> str:
        """The first sentence of the method's docstring."""
        return (self.method.__doc__ or "").partition("\n")[0]

    def fields_of_form(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """Return the action's fields from those of a form. Empty ones get their defaults.

        Raises: `Invalid` if one is missing, or `qty` is not a number.
        """
        fields = {name: typed.get(name, "").strip() for name in self.fields.model_fields}
        for name, field in self.fields.model_fields.items():
            if field.is_required() and not fields[name]:
                raise Invalid(f"{name} is missing", field=name)
        return {name: _number(value) if name == "qty" else value for name, value in fields.items() if value}


_LIMITS = (TooHeavy, NoSpace)

TABLE = [
    Action("move", World.move, models.Move, (NoExit, UnknownLocation), ["go", "walk"], grammar.move, "go WAY"),
    Action(
        "pick-up",
        World.pick_up,
        models.Some,
        _LIMITS,
        ["take", "get"],
        grammar.take,
        "take [N] THING, take THING from BAG, take all",
    ),
    Action("take-out", World.take_out, models.InContainer, _LIMITS),  # `take` reads this too
    Action("drop", World.drop, models.Some, (InUse,), ["drop"], grammar.drop, "drop [N] THING, drop all"),
    Action(
        "put-in",
        World.put_in,
        models.InContainer,
        (InUse, NotMadeForThat, IntoItself, *_LIMITS),
        ["put"],
        grammar.put,
        "put [N] THING in BAG, put all in BAG",
    ),
    Action("give", World.give, models.Gift, (InUse, *_LIMITS), ["give"], grammar.give, "give [N] THING to NAME"),
    Action("say", World.say, models.Words, (), ["say"], grammar.say, "say WORDS, ' WORDS"),
    Action("wear", World.wear, models.OfItem, (InUse, NotMadeForThat), ["wear"], grammar.wear, "wear THING"),
    Action(
        "wield",
        World.wield,
        models.Wield,
        (InUse, NotMadeForThat),
        ["wield"],
        grammar.wield,
        "wield THING, wield THING in left",
    ),
    Action("remove", World.remove, models.OfItem, (), ["remove"], grammar.remove, "remove THING"),
    Action("use", World.use, models.OfItem, (NotMadeForThat,), ["use", "drink", "eat"], grammar.use, "use THING"),
    Action(
        "buy", World.buy, models.Trade, (NotForSale, NotEnoughGold, *_LIMITS), ["buy"], grammar.buy, "buy [N] THING"
    ),
    Action(
        "sell",
        World.sell,
        models.Trade,
        (InUse, NotForSale, NotEnoughGold, *_LIMITS),
        ["sell"],
        grammar.sell,
        "sell [N] THING",
    ),
    Action("split", World.split, models.Split, (InUse, *_LIMITS)),
    Action("stack", World.stack, models.Stack, (InUse, NotMadeForThat)),
    Action("adjust", World.adjust, models.Adjustment, by_players=False),
]
ACTIONS = {action.name: action for action in TABLE}


def act(world: World, character_id: str, call: Call, key: Key | None = None) -> Event:
    """Run an action of a player.

    Raises: `NotFound` if players have no such action; the errors of the action.
    """
    action = ACTIONS.get(call.action)
    # guard: a player cannot use an action that is for programs only
    if action is None or not action.by_players:
        raise NotFound(f"nobody can {call.action[:40]} here")
    return action.method(world, character_id, **call.fields, key=key)


def _number(value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise Invalid("qty must be a whole number", field="qty")
    return int(value)
