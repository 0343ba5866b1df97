"""What routes ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from fastapi import Request

from squinney.assembly import Assembled

T = TypeVar("T")


def assembled(request: Request) -> Assembled:
    """The systems this process serves."""
    return cast(Assembled, request.app.state.assembled)


def noun(system: str, name: str, kind: type[T]) -> Callable[[Request], T]:
    """A dependency that gives a system's noun, which is built once per process."""

    def give(request: Request) -> T:
        return cast(T, assembled(request).nouns[system][name])

    return give
