"""What the bodies of requests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator

from squinney.errors import Invalid


class Body(BaseModel):
    """What comes in: nothing that is not declared, nothing that has to be guessed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WithWhatGetGives(BaseModel):
    """Passes over what GET gives and nobody can set, so that what GET gives can be sent as it is."""

    NOT_SET: ClassVar[frozenset[str]]

    @model_validator(mode="before")
    @classmethod
    def _pass_over(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.NOT_SET}


class WithFixedFields(WithWhatGetGives):
    """Takes what GET gives of `FIXED` as well, as it is; another value is refused, for it would not be set.

    What changes by itself, as counts and times do, belongs to `NOT_SET`.
    """

    FIXED: ClassVar[frozenset[str]]
    _fixed: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _set_apart(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict):
            return handler(given)
        body = handler({name: value for name, value in given.items() if name not in cls.FIXED})
        body._fixed = {name: value for name, value in given.items() if name in cls.FIXED}
        return body

    def require_fixed(self, current: Callable[[], Any], model: type[BaseModel]) -> None:
        """Raises: `Invalid` naming a field whose value is not the current one, as GET gives it."""
        if not self._fixed:
            return
        shown = model.model_validate(current()).model_dump(mode="json")
        for name, value in self._fixed.items():
            if value != shown[name]:
                raise Invalid(f"{name} cannot be changed here: leave it out, or as it is", field=name)
