"""Response models, derived from the types of the stored documents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, Field, create_model

from squinney.patterns.paging import Page


def model_of(document: type, *, model_name: str = "", without: Collection[str] = (), **more: Any) -> type[BaseModel]:
    """Return a response model with the fields of a document's `TypedDict` or dataclass; `_id` becomes `id`.

    The model has the document's name unless `model_name` is given. Fields in `without` are left out. `more` adds
    fields, or replaces the types of existing ones, in the form that Pydantic's `create_model` takes.
    """
    hints = {**get_type_hints(document, include_extras=True), **more}
    fields: dict[str, Any] = {
        "id" if name == "_id" else name: _field(name, hint) for name, hint in hints.items() if name not in without
    }
    # The rest of the docstring describes internals, which the API's documentation does not show.
    summary = (document.__doc__ or "").partition(". ")[0].rstrip(".") + "."
    return create_model(model_name or document.__name__, __doc__=summary, __module__=document.__module__, **fields)


@cache
def page_of(model: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a page of items; the caller sends `next` back as `cursor` to get the next page."""
    summary = f"A page of {model.__name__}."
    return create_model(f"{model.__name__}Page", __doc__=summary, items=(list[model], ...), next=(str | None, ...))  # type: ignore[valid-type]


def list_of(model: type[BaseModel]) -> Any:
    """Return the type of a list of models."""
    return list[model]  # type: ignore[valid-type]


def signed_page(page: Page[Any], sign: Callable[[str | None], str | None]) -> dict[str, Any]:
    """Return a page as a response body, with its cursor signed."""
    return {"items": page.items, "next": sign(page.next)}


def _field(name: str, hint: Any) -> Any:
    if isinstance(hint, tuple):
        return hint
    if get_origin(hint) is NotRequired:
        return (_response_type(get_args(hint)[0]) | None, None)
    return (_response_type(hint), Field(validation_alias="_id") if name == "_id" else ...)


def _response_type(hint: Any) -> Any:
    """Replace each `TypedDict` inside a type by its response model."""
    if is_typeddict(hint):
        return _nested_model(hint)
    if get_origin(hint) is list:
        return list[_response_type(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is UnionType:
        return reduce(or_, map(_response_type, get_args(hint)))
    return hint


_nested_model = cache(model_of)
