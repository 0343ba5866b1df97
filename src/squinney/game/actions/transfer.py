"""A thing goes from one holder to another: taken from where it is, put where it comes to."""

from __future__ import annotations

from typing import cast

from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.documents import DEEPEST, MOST_IN_CONTAINER, MOST_QTY, Character, Entry, Holder, Item
from squinney.game.errors import IntoItself, NoSpace, NotMadeForThat, TooHeavy
from squinney.game.records import height_of
from squinney.patterns.ids import new_id
from squinney.transactions import PROTOCOL_FIELDS, Stale


class Transfer:
    """One thing, or a part of a stack, on its way in a draft."""

    def __init__(self, draft: Draft, item: Item, qty: int | None, *, is_new: bool = False) -> None:
        """Raises: `Invalid` where there are not so many of it."""
        self._draft = draft
        self._item = item if is_new else draft.item(item)
        self._qty = item["qty"] if qty is None else qty
        if not 1 <= self._qty <= item["qty"]:
            raise Invalid(f"there are {item['qty']} of {item['name']}", field="qty", limit=item["qty"])
        self._whole = self._qty == item["qty"]
        self._inside = draft.records.inside(item)
        self.name = rules.described({**item, "qty": self._qty})

    @property
    def _entry(self) -> Entry:
        return rules.entry_of({**self._item, "qty": self._qty}, self._inside)

    # ---- from where it is ----

    def from_room(self, location_id: str) -> None:
        """It lay on the floor."""
        change = self._draft.room(location_id)
        if self._whole:
            change.unlist_entry(self._item["_id"])
        else:
            change.change_entry(self._item["_id"], qty=-self._qty, weight=-self._qty * self._item["weight"])
        self._split()

    def from_character(self, character: Character) -> None:
        """It was in their hands."""
        self._unlist(character)
        self._split()

    def from_container(self, chain: list[Item], outermost: Holder, carrier: Character | None) -> None:
        """It was in a container, which `carrier` carries, or which lies in a room."""
        self._weigh(chain, outermost, carrier, -1)
        if carrier is not None:
            self._unlist(carrier)
        self._split()

    def _unlist(self, character: Character) -> None:
        if self._whole:
            character["inventory"] = rules.without(character["inventory"], self._item["_id"])
            return
        entry = rules.entry_with(character["inventory"], self._item["_id"])
        if entry is not None:
            entry["qty"] -= self._qty
            entry["weight"] -= self._qty * self._item["weight"]

    def _split(self) -> None:
        """What is taken from a stack is a thing of its own from now on."""
        if self._whole:
            return
        self._item["qty"] -= self._qty
        kept = {name: value for name, value in self._item.items() if name not in PROTOCOL_FIELDS}
        self._item = cast(Item, {**kept, "_id": new_id(), "qty": self._qty, "version": 1, "txns": []})
        self._draft.make(self._item)

    # ---- to where it comes ----

    def to_room(self, location_id: str) -> None:
        """It lies on the floor."""
        self._item["holder"] = rules.holder("location", location_id)
        self._draft.room(location_id).list_entry(rules.entry_of(self._item))

    def to_character(self, character: Character, *, may_join: bool = True) -> None:
        """It is in their hands; on a stack of such things, if they carry one."""
        stack = self._item.get("stack")
        alike = [one for one in character["inventory"] if may_join and stack and one.get("stack") == stack]
        for entry in alike:
            if entry["qty"] + self._qty <= MOST_QTY:
                self.onto(entry)
                return
        self._item["holder"] = rules.holder("character", character["_id"])
        character["inventory"] = [*character["inventory"], self._entry]

    def onto(self, entry: Entry) -> None:
        """It lies on that stack."""
        stack = self._draft.item(self._draft.records.item(entry["id"]))
        if stack["qty"] != entry["qty"]:
            raise Stale("the stack changed while it was read")
        stack["qty"] += self._qty
        entry["qty"] += self._qty
        entry["weight"] += self._qty * self._item["weight"]
        if self._whole:
            self._draft.remove(self._item)
        else:
            self._draft.unmake(self._item)

    def to_container(self, chain: list[Item], outermost: Holder, carrier: Character | None) -> None:
        """It is in the first container of the chain.

        Raises: `NotMadeForThat`, `IntoItself`, `NoSpace`, `TooHeavy`.
        """
        container = chain[0]
        if container["kind"] != "container":
            raise NotMadeForThat(f"{container['name']} holds nothing", item_id=container["_id"])
        if self._item["_id"] in {one["_id"] for one in chain}:
            raise IntoItself(f"{self._item['name']} cannot go into itself", item_id=self._item["_id"])
        if container["count"] >= MOST_IN_CONTAINER:
            raise NoSpace(f"{container['name']} holds {MOST_IN_CONTAINER} things", limit=MOST_IN_CONTAINER)
        if len(chain) + height_of(self._entry) > DEEPEST:
            raise NoSpace(f"bags go into bags {DEEPEST} deep, and no deeper", limit=DEEPEST)
        self._weigh(chain, outermost, carrier, 1)
        self._item["holder"] = rules.holder("item", container["_id"])
        if carrier is not None:
            listed = rules.entry_with(carrier["inventory"], container["_id"])
            if listed is None:
                raise Stale("the container moved while it was read")
            listed["inventory"] = [*listed.get("inventory", []), self._entry]

    def _weigh(self, chain: list[Item], outermost: Holder, carrier: Character | None, sign: int) -> None:
        """Every container around it gains or loses its weight: so a change inside one is seen by all who hold it."""
        weight = sign * self._entry["weight"]
        more = sign * rules.size_of(self._item) if self._whole or sign > 0 else 0
        for depth, stored in enumerate(chain):
            container = self._draft.item(stored)
            container["load"] = container.get("load", 0) + weight
            container["things"] = container.get("things", 0) + more
            direct = (sign if more else 0) if depth == 0 else 0
            container["count"] = container.get("count", 0) + direct
            if sign > 0 and container["load"] > container.get("capacity", 0):
                raise TooHeavy(
                    f"{container['name']} holds {container.get('capacity', 0)}, and would hold {container['load']}",
                    limit=container.get("capacity", 0),
                )
            if carrier is not None and (entry := rules.entry_with(carrier["inventory"], container["_id"])):
                entry["weight"] += weight
                entry["count"] = entry.get("count", 0) + direct
            if carrier is None and depth == len(chain) - 1:
                self._draft.room(str(outermost["id"])).change_entry(container["_id"], weight=weight, count=direct)
