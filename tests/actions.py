"""Make actions that call a method, for crash cases and scenes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squinney.mongo.schema import Db


def method_of(make: Callable[[Db], Any]) -> Callable[..., Callable[[Db, Any], None]]:
    """Return a function that makes actions: `method_of(Network)("post", "ann", "{text}")`.

    The action calls the method of `make(db)`. Arguments in braces are replaced by entries of the prepared state.
    """

    def action(name: str, *arguments: Any, **options: Any) -> Callable[[Db, Any], None]:
        def act(db: Db, state: Any) -> None:
            given = [
                state[argument[1:-1]] if isinstance(argument, str) and argument.startswith("{") else argument
                for argument in arguments
            ]
            getattr(make(db), name)(*given, **options)

        return act

    return action
