"""Move a thing from one holder to another: take it from where it is, then put it where it goes."""

from __future__ import annotations

from typing import cast

from squinney.errors import Invalid
from squinney.game import rules
from squinney.game.actions.draft import Draft
from squinney.game.documents import MAX_CONTAINER_DEPTH, MAX_IN_CONTAINER, MAX_QTY, Character, Entry, Holder, Item
from squinney.game.entries import container_levels, entries_without, entry_of, entry_with, size_of
from squinney.game.errors import IntoItself, NoSpace, NotMadeForThat, TooHeavy
from squinney.patterns.ids import new_id
from squinney.transactions import CHECKS_FIELD, Stale


class ItemTransfer:
    """One thing, or a part of a stack, that moves within a draft: call one `from_` method, then one `to_` method."""

    def __init__(self, draft: Draft, item: Item, qty: int | None, *, is_new: bool = False) -> None:
        """Raises: `Invalid` if the stack has fewer than `qty`."""
        self._draft = draft
        self._item = item if is_new else draft.item(item)
        self._qty = item["qty"] if qty is None else qty
        if not 1 <= self._qty <= item["qty"]:
            raise Invalid(f"there are {item['qty']} of {item['name']}", field="qty", limit=item["qty"])
        self._is_whole_stack = self._qty == item["qty"]
        self._contents = draft.records.contents_of(item)
        self.name = rules.described({**item, "qty": self._qty})

    @property
    def thing_name(self) -> str:
        """The name of the thing, without its number."""
        return self._item["name"]

    @property
    def _entry(self) -> Entry:
        return entry_of({**self._item, "qty": self._qty}, self._contents)

    # ---- from a holder ----

    def from_room(self, location_id: str) -> None:
        """Take the thing from the floor of a room."""
        change = self._draft.room(location_id)
        if self._is_whole_stack:
            change.unlist_entry(self._item["_id"])
        else:
            change.change_entry(self._item["_id"], qty=-self._qty, weight=-self._qty * self._item["weight"])
        self._split()

    def from_character(self, character: Character) -> None:
        """Take the thing from a character's hands."""
        self._unlist(character)
        self._split()

    def from_container(self, chain: list[Item], outermost: Holder) -> None:
        """Take the thing out of the first container of `chain`; `outermost` is the holder of the last container."""
        self._update_containers(chain, outermost, -1)
        if (carrier := self._carrier(outermost)) is not None:
            self._unlist(carrier)
        self._split()

    def _unlist(self, character: Character) -> None:
        if self._is_whole_stack:
            character["inventory"] = entries_without(character["inventory"], self._item["_id"])
            return
        entry = entry_with(character["inventory"], self._item["_id"])
        if entry is not None:
            entry["qty"] -= self._qty
            entry["weight"] -= self._qty * self._item["weight"]

    def _split(self) -> None:
        """Make the part that is taken from a stack a thing of its own."""
        if self._is_whole_stack:
            return
        # guard: a stack is reduced by what is taken from it
        self._item["qty"] -= self._qty
        kept = {name: value for name, value in self._item.items() if name != CHECKS_FIELD}
        self._item = cast(Item, {**kept, "_id": new_id(), "qty": self._qty, "version": 1})
        self._draft.insert_item(self._item)

    # ---- to a holder ----

    def to_room(self, location_id: str) -> None:
        """Put the thing on the floor of a room."""
        self._item["holder"] = {"kind": "location", "id": location_id}
        self._draft.room(location_id).list_entry(entry_of(self._item))

    def to_character(self, character: Character, *, may_merge: bool = True) -> None:
        """Put the thing into a character's hands, onto a stack of the same things if the character carries one."""
        stack = self._item.get("stack")
        alike = [entry for entry in character["inventory"] if may_merge and stack and entry.get("stack") == stack]
        for entry in alike:
            if entry["qty"] + self._qty <= MAX_QTY:
                self.merge_into(entry)
                return
        self._item["holder"] = {"kind": "character", "id": character["_id"]}
        character["inventory"] = [*character["inventory"], self._entry]

    def merge_into(self, entry: Entry) -> None:
        """Add the thing to the stack that `entry` lists."""
        stack = self._draft.item(self._draft.records.item(entry["id"]))
        if stack["qty"] != entry["qty"]:
            raise Stale("the stack changed while it was read")
        stack["qty"] += self._qty
        entry["qty"] += self._qty
        entry["weight"] += self._qty * self._item["weight"]
        if self._is_whole_stack:
            self._draft.delete_item(self._item)
        else:
            self._draft.cancel_insert(self._item)

    def to_container(self, chain: list[Item], outermost: Holder) -> None:
        """Put the thing into the first container of `chain`; `outermost` is the holder of the last container.

        Raises: `NotMadeForThat`, `IntoItself`, `NoSpace`, `TooHeavy`.
        """
        container = chain[0]
        if container["kind"] != "container":
            raise NotMadeForThat(f"{container['name']} holds nothing", item_id=container["_id"])
        # guard: a container is not put into itself or into its contents
        if self._item["_id"] in {outer["_id"] for outer in chain}:
            raise IntoItself(f"{self._item['name']} cannot go into itself", item_id=self._item["_id"])
        if container["count"] >= MAX_IN_CONTAINER:
            raise NoSpace(f"{container['name']} holds {MAX_IN_CONTAINER} things", limit=MAX_IN_CONTAINER)
        # guard: containers are nested no deeper than the limit
        if len(chain) + container_levels(self._entry) > MAX_CONTAINER_DEPTH:
            raise NoSpace(f"bags go into bags {MAX_CONTAINER_DEPTH} deep, and no deeper", limit=MAX_CONTAINER_DEPTH)
        self._update_containers(chain, outermost, 1)
        self._item["holder"] = {"kind": "item", "id": container["_id"]}
        if (carrier := self._carrier(outermost)) is not None:
            listed = entry_with(carrier["inventory"], container["_id"])
            if listed is None:
                raise Stale("the container moved while it was read")
            listed["inventory"] = [*listed.get("inventory", []), self._entry]

    def _carrier(self, holder: Holder) -> Character | None:
        return self._draft.character(str(holder["id"])) if holder["kind"] == "character" else None

    def _update_containers(self, chain: list[Item], outermost: Holder, sign: int) -> None:
        """Add the thing to the weight and counts of every container around it, or subtract it.

        Every container in the chain changes, so two changes inside one container always conflict.
        """
        carrier = self._carrier(outermost)
        weight = sign * self._entry["weight"]
        things = sign * size_of(self._item) if self._is_whole_stack or sign > 0 else 0
        for depth, stored in enumerate(chain):
            container = self._draft.item(stored)
            container["load"] = container.get("load", 0) + weight
            container["things"] = container.get("things", 0) + things
            direct = (sign if things else 0) if depth == 0 else 0
            container["count"] = container.get("count", 0) + direct
            # guard: a container holds no more than its capacity
            if sign > 0 and container["load"] > container.get("capacity", 0):
                raise TooHeavy(
                    f"{container['name']} holds {container.get('capacity', 0)}, and would hold {container['load']}",
                    limit=container.get("capacity", 0),
                )
            if carrier is not None and (entry := entry_with(carrier["inventory"], container["_id"])):
                entry["weight"] += weight
                entry["count"] = entry.get("count", 0) + direct
            if carrier is None and depth == len(chain) - 1:
                self._draft.room(str(outermost["id"])).change_entry(container["_id"], weight=weight, count=direct)
