"""What the bodies of requests share."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, model_validator


class WithWhatGetGives(BaseModel):
    """Passes over what GET gives and nobody can set, so that what GET gives can be sent as it is."""

    NOT_SET: ClassVar[frozenset[str]]

    @model_validator(mode="before")
    @classmethod
    def _pass_over(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in cls.NOT_SET}
