"""Which steps can be decided in two phases: those that the server cannot reject after the decision."""

from __future__ import annotations

from collections.abc import Iterator

from squinney.mongo.schema import Db
from squinney.transactions.errors import WriteRefused
from squinney.transactions.steps import Plan, Step, changed_paths
from squinney.transactions.two_phase.documents import PROTOCOL_FIELDS

UNSUITABLE_OPTIONS = ("capped", "collation", "timeseries", "clusteredIndex", "viewOn")


class Decidable:
    """Refuses plans that cannot be decided in two phases; what it has learnt about a collection it keeps."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._suitable: set[str] = set()

    def require(self, plan: Plan) -> None:
        """Refuse a plan that changes the protocol's fields, or a collection with more constraints than its `_id`.

        Raises: `ValueError`, `WriteRefused`.
        """
        for step in plan.steps:
            if taken := PROTOCOL_FIELDS.intersection(_fields_of(step)):
                raise ValueError(f"a step must not write the field {min(taken)}")
        for name in {step.name for step in plan.steps} - self._suitable:
            # guard: no unique values are changed in two phases
            if reason := self._unsuitable(name):
                raise WriteRefused(
                    f"{name} has {reason}, so its changes cannot be decided in two phases: use Transactions",
                    collection=name,
                )
            self._suitable.add(name)

    def _unsuitable(self, name: str) -> str:
        info = next(iter(self._db.list_collections(filter={"name": name})), None)
        if info is None:
            return ""
        options = info.get("options", {})
        if option := next((option for option in UNSUITABLE_OPTIONS if option in options), ""):
            return f"the option {option}"
        unique = (index for index, keys in self._db[name].index_information().items() if keys.get("unique"))
        return next((f"the unique index {index}" for index in unique), "")


def _fields_of(step: Step) -> Iterator[str]:
    yield from step.insert or ()
    for path in changed_paths(step.update or {}):
        yield path.split(".")[0]
