"""Buy from shopkeepers and sell to them."""

from __future__ import annotations

from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.actions.hands import take_from_hands
from squinney.game.actions.item_transfer import ItemTransfer
from squinney.game.documents import Character, Event
from squinney.game.errors import NotEnoughGold, NotForSale


def buy(draft: Draft, character: str, shopkeeper: str, item: str, qty: int) -> Event:
    """Plan how a character buys from a shopkeeper."""
    actor, keeper = _traders(draft, character, shopkeeper)
    thing = draft.records.item(item)
    if thing["holder"] != {"kind": "character", "id": shopkeeper} or item in rules.in_use(keeper):
        raise NotForSale(f"{keeper['name']} does not sell {thing['name']}", item_id=item)
    transfer = ItemTransfer(draft, thing, qty)
    price = rules.price_of(thing, qty, keeper["shop"]["sells_at"], rounded_up=True)
    _pay(actor, keeper, price)
    transfer.from_character(keeper)
    transfer.to_character(actor)
    text = f"{actor['name']} buys {transfer.name} for {price} gold"
    return draft.add_event("bought", actor, text, item_id=item, other_id=shopkeeper)


def sell(draft: Draft, character: str, shopkeeper: str, item: str, qty: int) -> Event:
    """Plan how a character sells a carried thing to a shopkeeper."""
    _, keeper = _traders(draft, character, shopkeeper)
    thing = draft.records.item(item)
    actor, transfer = take_from_hands(draft, character, item, qty)
    price = rules.price_of(thing, qty, keeper["shop"]["buys_at"], rounded_up=False)
    _pay(keeper, actor, price)
    transfer.to_character(keeper)
    text = f"{actor['name']} sells {transfer.name} for {price} gold"
    return draft.add_event("sold", actor, text, item_id=item, other_id=shopkeeper)


def _traders(draft: Draft, character: str, shopkeeper: str) -> tuple[Character, Character]:
    actor = draft.character(character)
    keeper = draft.character(shopkeeper)
    rules.require_same_room(actor, keeper)
    # guard: only shopkeepers sell
    if keeper["kind"] != "shopkeeper":
        raise NotForSale(f"{keeper['name']} keeps no shop", character_id=shopkeeper)
    return actor, keeper


def _pay(payer: Character, payee: Character, price: int) -> None:
    # guard: a buyer cannot pay more gold than there is
    if payer["gold"] < price:
        raise NotEnoughGold(f"{payer['name']} has {payer['gold']} gold, not {price}", price=price, gold=payer["gold"])
    payer["gold"] -= price
    # guard: the seller gets the gold that the buyer pays
    payee["gold"] += price
