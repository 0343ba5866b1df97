"""Our kind of route: the thread that ran an operation also writes its answer as JSON."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from squinney.http.query_strings import known_queries_only


class OneThreadRoute(APIRoute):
    """The framework would send each result to a second thread to be checked and written: a third of a read's time.

    It also refuses query parameters that nobody reads.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        model = options.get("response_model")
        described = model is not None and not isinstance(model, DefaultPlaceholder)
        if described and not inspect.iscoroutinefunction(endpoint):
            endpoint = _answering(endpoint, model, options.get("status_code") or 200)
        options["dependencies"] = [*(options.get("dependencies") or ()), known_queries_only]
        super().__init__(path, endpoint, **options)


class LastPartRoute(OneThreadRoute):
    """A route whose last word is told from a parameter with slashes before it by the address as it was sent.

    `/stock/{sku:path}/movements` is not meant by `/stock/a%2Fmovements`: that is the SKU `a/movements`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As the framework does, where the address has the last word as a part of its own."""
        last_word = self.path.rpartition("}/")[2]
        sent = unquote((scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].rpartition(b"/")[2])
        if "{" not in last_word and ":path}/" in self.path and sent != last_word:
            return Match.NONE, {}
        return super().matches(scope)


def _answering(endpoint: Callable[..., Any], model: Any, status: int) -> Callable[..., Response]:
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    @functools.wraps(endpoint)
    def answer(*args: Any, **kwargs: Any) -> Response:
        result = endpoint(*args, **kwargs)
        if isinstance(result, Response):
            return result
        checked = adapter.validate_python(result, from_attributes=True)
        return Response(adapter.dump_json(checked, by_alias=True), status, media_type="application/json")

    return answer
