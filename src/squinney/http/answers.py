"""Response models, made of the types that documents have."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, Field, create_model

from squinney.patterns.paging import Page


def answer(document: type, *, called: str = "", without: Collection[str] = (), **more: Any) -> type[BaseModel]:
    """The model of a document's `TypedDict` or dataclass: the same fields, but `id` for `_id`.

    It is called as the document, or as `called` says. Fields in `without` are not answered. `more` are further fields,
    or the same ones with other types, as `create_model` takes them.
    """
    hints = {**get_type_hints(document, include_extras=True), **more}
    fields: dict[str, Any] = {
        "id" if name == "_id" else name: _field(name, hint) for name, hint in hints.items() if name not in without
    }
    what = (document.__doc__ or "").partition(". ")[0].rstrip(".") + "."  # what follows is for readers of the source
    return create_model(called or document.__name__, __doc__=what, __module__=document.__module__, **fields)


@cache
def page_of(model: type[BaseModel]) -> type[BaseModel]:
    """The model of a page; `next` goes back as `cursor`."""
    what = f"A page of {model.__name__}."
    return create_model(f"{model.__name__}Page", __doc__=what, items=(list[model], ...), next=(str | None, ...))  # type: ignore[valid-type]


def list_of(model: type[BaseModel]) -> Any:
    """The model of a list."""
    return list[model]  # type: ignore[valid-type]


def signed_page(page: Page[Any], sign: Callable[[str | None], str | None]) -> dict[str, Any]:
    """A page as it is answered: its cursor signed."""
    return {"items": page.items, "next": sign(page.next)}


def _field(name: str, hint: Any) -> Any:
    if isinstance(hint, tuple):
        return hint
    if get_origin(hint) is NotRequired:
        return (_answered(get_args(hint)[0]) | None, None)
    return (_answered(hint), Field(validation_alias="_id") if name == "_id" else ...)


def _answered(hint: Any) -> Any:
    """Documents within a document are answered alike."""
    if is_typeddict(hint):
        return _part(hint)
    if get_origin(hint) is list:
        return list[_answered(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is UnionType:
        return reduce(or_, map(_answered, get_args(hint)))
    return hint


_part = cache(answer)
