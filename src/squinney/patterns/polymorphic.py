"""Documents of several types and schema versions in one collection.

Each type is a plain Pydantic class. Common fields are in a base class, and those of one type in a sub-document. An
`alias` makes a stored name shorter. A `Types` object lists the classes of a collection; there is no other registry.

    class Item(Document):
        title: str

    class PhotoDetail(Part):
        width: int = Field(alias="w")

    class Photo(Item):
        type: Literal["photo"] = "photo"
        schema_version: int = 2
        detail: PhotoDetail

    @upgrades(Photo, 1)
    def split_size(stored: dict[str, Any]) -> dict[str, Any]:
        ...                                      # gets the stored form of version 1, returns that of version 2

    ITEMS = Types(Item, Photo)
    ITEMS.load(collection.find_one(...))         # a Photo of the newest version, or an Item if the type is unknown
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from squinney.errors import Conflict, Invalid

Stored = dict[str, Any]
Upgrade = Callable[[Stored], Stored]
F = TypeVar("F", bound=Upgrade)


class Unreadable(Conflict):
    """A stored document does not match its type, or is newer than this program."""


class Part(BaseModel):
    """The base of sub-documents. It keeps fields that the class does not define, so that saving loses nothing."""

    model_config = ConfigDict(extra="allow", validate_by_name=True, use_enum_values=True)


class Document(Part):
    """The base of typed documents. A subclass sets its `type` and its newest `schema_version` as defaults."""

    upgrade_functions: ClassVar[dict[int, Upgrade]] = {}

    type: str
    schema_version: int = 1

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.upgrade_functions = {}


D = TypeVar("D", bound=Document)


def upgrades(model: type[Document], version: int) -> Callable[[F], F]:
    """Register the decorated function to upgrade the stored form of `version` to that of the next version.

    The function gets a copy of the stored document, with stored names, and returns the new one. The functions of a base
    class apply to all its types, before their own. A version without a function only gets the defaults of new fields.
    """

    def register(function: F) -> F:
        if version in model.upgrade_functions or not 1 <= version < newest_version(model):
            raise ValueError(f"{model.__name__} has no version {version} left to upgrade")
        model.upgrade_functions[version] = function
        return function

    return register


def newest_version(model: type[Document]) -> int:
    """Return the version that the class writes."""
    return int(model.model_fields["schema_version"].default)


def stored_path(model: type[BaseModel], path: str) -> str:
    """Return the stored path of a field for filters, sorts and indexes: `d.sd` for `details.short_description`.

    Raises: `KeyError` for a field that the class does not have.
    """
    name, _, rest = path.partition(".")
    field = model.model_fields[name]
    stored = field.alias or name
    if not rest:
        return stored
    inner = next(iter(_models_in(field.annotation)), None)
    return f"{stored}.{stored_path(inner, rest) if inner else rest}"


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


class Types(Generic[D]):
    """The document types of one collection. It is immutable; `adding` returns a larger one."""

    def __init__(self, base: type[D], *models: type[D]) -> None:
        self.base = base
        self.models = {_type_of(model): model for model in models}
        self.type_field = stored_path(base, "type")
        self.version_field = stored_path(base, "schema_version")
        if len(self.models) < len(models):
            raise ValueError("two classes have the same type")
        for model in (base, *models):
            self._check(model)

    def adding(self, *models: type[D]) -> Types[D]:
        """Return these types and further ones."""
        return Types(self.base, *self.models.values(), *models)

    def model_of(self, stored: Mapping[str, Any]) -> type[D]:
        """Return the class of a stored document, or the base class if its type is unknown."""
        return self._model_named(stored.get(self.type_field))

    def _model_named(self, kind: Any) -> type[D]:
        return self.models.get(kind, self.base) if isinstance(kind, str) else self.base

    def is_outdated(self, stored: Mapping[str, Any]) -> bool:
        """Return whether loading would upgrade the document. A document without a version has version 1."""
        version, newest = stored.get(self.version_field, 1), newest_version(self.model_of(stored))
        return version != newest and (not isinstance(version, int) or version < newest)

    def load(self, stored: Mapping[str, Any]) -> D:
        """Return the document as the newest version of its class, upgraded in memory; `stored` is not changed.

        Raises: `Unreadable`, with the id and the reason, if it matches no version or an upgrade fails.
        """
        try:
            upgraded = self._upgrade(copy.deepcopy(dict(stored)))
            return self.model_of(upgraded).model_validate(upgraded, by_alias=True, by_name=False, extra="allow")
        except Exception as error:  # an upgrade function may raise anything
            raise Unreadable(
                f"{stored.get(self.type_field)} {stored.get('_id')} cannot be read: {_reason(error)}",
                id=stored.get("_id"),
                type=stored.get(self.type_field),
                version=stored.get(self.version_field),
                reason=_reason(error),
            ) from error

    def parse(self, given: Mapping[str, Any]) -> D:
        """Parse a new document from outside, with the long names; unknown fields and other versions are rejected.

        Raises: `Invalid` naming the first wrong field.
        """
        if not isinstance(given, Mapping):
            raise Invalid("the document must be a mapping", field="document")
        model = self._model_named(given.get("type"))
        newest = newest_version(model)
        if given.get("schema_version", newest) != newest:
            raise Invalid(f"schema_version must be {newest}", field="schema_version", limit=newest)
        try:
            return model.model_validate(dict(given), by_alias=False, by_name=True, extra="forbid")
        except ValidationError as error:
            raise Invalid(_reason(error), field=_path(error)) from None

    def dump(self, document: D) -> Stored:
        """Return the stored form, with short names and the newest version.

        Raises: `Unreadable` for a document of a newer program: saving it here would undo its upgrade.
        """
        newest = newest_version(type(document))
        if document.schema_version > newest:
            raise Unreadable(
                f"{document.type} has version {document.schema_version}; this program writes {newest}",
                type=document.type,
                version=document.schema_version,
            )
        return {**document.model_dump(by_alias=True), self.version_field: newest}

    def _upgrade(self, stored: Stored) -> Stored:
        version = stored.get(self.version_field, 1)
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"{self.version_field} is {version!r}")
        while version < newest_version(self.model_of(stored)):
            for function in _functions(self.model_of(stored), version):
                stored = function(stored)
            version += 1
            stored[self.version_field] = version
        return stored

    def _check(self, model: type[D]) -> None:
        if not issubclass(model, self.base):
            raise ValueError(f"{model.__name__} is not a {self.base.__name__}")
        model.model_rebuild()  # raises if an annotation names an undefined class
        if (stored_path(model, "type"), stored_path(model, "schema_version")) != (self.type_field, self.version_field):
            raise ValueError(f"{model.__name__} stores type or schema_version under another name than its base")
        for part in _parts_of(model):
            if part.model_config.get("extra") != "allow":
                raise ValueError(f"{part.__name__} would lose fields that it does not define: its type must be a Part")


def _parts_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    models: set[type[BaseModel]] = set()
    waiting = [model]
    while waiting:
        fields = waiting.pop().model_fields.values()
        new = {part for field in fields for part in _models_in(field.annotation)} - models
        models |= new
        waiting += new
    return models


def _type_of(model: type[Document]) -> str:
    kind = model.model_fields["type"].default
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"{model.__name__} must give its type as a default")
    return kind


def _functions(model: type[Document], version: int) -> Iterator[Upgrade]:
    for parent in reversed(model.__mro__):
        functions = parent.__dict__.get("upgrade_functions", {})
        if version in functions:
            yield functions[version]


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"{_path(error)}: {error.errors(include_url=False)[0]['msg']}"
    return f"{type(error).__name__}: {error}"


def _path(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"]) or "document"
