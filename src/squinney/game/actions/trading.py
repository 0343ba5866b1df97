"""Buy from shopkeepers and sell to them."""

from __future__ import annotations

from squinney import checks
from squinney.game import rules
from squinney.game.actions.action import Action, check_different, take_from_hands
from squinney.game.actions.draft import Draft
from squinney.game.actions.transfer import Transfer
from squinney.game.documents import MOST_QTY, Character, Event
from squinney.game.errors import NotEnoughGold, NotForSale
from squinney.mongo.connect import operation
from squinney.transactions import Key


class Trading(Action):
    """The actions of `World` that buy and sell."""

    @operation()
    def buy(self, character: str, shopkeeper: str, item: str, qty: int = 1, *, key: str | Key | None = None) -> Event:
        """Buy `qty` of a thing from a shopkeeper in the same room.

        Atomic: the thing, both characters' gold and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `NotForSale`, `NotEnoughGold`, `TooHeavy`,
        `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)
        check_different(shopkeeper, "shopkeeper", other=character, other_field="character")

        def fill(draft: Draft) -> Event:
            actor, keeper = _traders(draft, character, shopkeeper)
            thing = draft.records.item(item)
            if thing["holder"] != {"kind": "character", "id": shopkeeper} or item in rules.in_use(keeper):
                raise NotForSale(f"{keeper['name']} does not sell {thing['name']}", item_id=item)
            transfer = Transfer(draft, thing, qty)
            price = rules.price_of(thing, qty, keeper["shop"]["sells_at"], rounded_up=True)
            _pay(actor, keeper, price)
            transfer.from_character(keeper)
            transfer.to_character(actor)
            text = f"{actor['name']} buys {transfer.name} for {price} gold"
            return draft.add_event("bought", actor, text, item_id=item, other_id=shopkeeper)

        arguments = {"character": character, "shopkeeper": shopkeeper, "item": item, "qty": qty}
        return self._act("buy", fill, key, arguments)

    @operation()
    def sell(self, character: str, shopkeeper: str, item: str, qty: int = 1, *, key: str | Key | None = None) -> Event:
        """Sell `qty` of a carried thing to a shopkeeper in the same room.

        Atomic: the thing, both characters' gold and the event, in one `Transactions` run.
        After a crash: native: nothing. Two-phase: `recover-transactions` finishes or undoes it.
        Raises: `Invalid`, `UnknownCharacter`, `UnknownThing`, `OutOfReach`, `InUse`, `NotForSale`, `NotEnoughGold`,
        `NoSpace`, `Busy`, `KeyReused`, `StillRunning`, `Unavailable`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)
        check_different(shopkeeper, "shopkeeper", other=character, other_field="character")

        def fill(draft: Draft) -> Event:
            _, keeper = _traders(draft, character, shopkeeper)
            thing = draft.records.item(item)
            actor, transfer = take_from_hands(draft, character, item, qty)
            price = rules.price_of(thing, qty, keeper["shop"]["buys_at"], rounded_up=False)
            _pay(keeper, actor, price)
            transfer.to_character(keeper)
            text = f"{actor['name']} sells {transfer.name} for {price} gold"
            return draft.add_event("sold", actor, text, item_id=item, other_id=shopkeeper)

        arguments = {"character": character, "shopkeeper": shopkeeper, "item": item, "qty": qty}
        return self._act("sell", fill, key, arguments)


def _traders(draft: Draft, character_id: str, shopkeeper_id: str) -> tuple[Character, Character]:
    actor = draft.character(character_id)
    keeper = draft.character(shopkeeper_id)
    rules.require_same_room(actor, keeper)
    if keeper["kind"] != "shopkeeper":
        raise NotForSale(f"{keeper['name']} keeps no shop", character_id=shopkeeper_id)
    return actor, keeper


def _pay(payer: Character, payee: Character, price: int) -> None:
    if payer["gold"] < price:
        raise NotEnoughGold(f"{payer['name']} has {payer['gold']} gold, not {price}", price=price, gold=payer["gold"])
    payer["gold"] -= price
    payee["gold"] += price
