"""Base classes of request bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator

from squinney.errors import Invalid


class Body(BaseModel):
    """A request body: unknown fields are refused, and values are not converted between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class IgnoresReadOnlyFields(BaseModel):
    """Ignores the fields in `READ_ONLY`, so that a client can send back what GET returned."""

    READ_ONLY: ClassVar[frozenset[str]]

    @model_validator(mode="before")
    @classmethod
    def _drop_read_only(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.READ_ONLY}


class AcceptsUnchangedFields(IgnoresReadOnlyFields):
    """Also accepts the fields in `UNCHANGEABLE`, but only with their current values.

    A different value is refused, because it would not be stored. Fields that the server changes, such as counts and
    times, belong in `READ_ONLY`.
    """

    UNCHANGEABLE: ClassVar[frozenset[str]]
    _unchangeable: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_unchangeable(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict):
            return handler(given)
        body = handler({name: value for name, value in given.items() if name not in cls.UNCHANGEABLE})
        body._unchangeable = {name: value for name, value in given.items() if name in cls.UNCHANGEABLE}
        return body

    def require_unchanged(self, current: Callable[[], Any], model: type[BaseModel]) -> None:
        """Check that each unchangeable field has its current value, as GET returns it.

        Raises: `Invalid`, which names the field.
        """
        if not self._unchangeable:
            return
        shown = model.model_validate(current()).model_dump(mode="json")
        for name, value in self._unchangeable.items():
            if value != shown[name]:
                raise Invalid(f"{name} cannot be changed here: leave it out or send its current value", field=name)
