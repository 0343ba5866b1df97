"""The route classes of all systems, and a route table that searches the routes of one system, not of all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Invalid
from squinney.http.access.callers import with_key
from squinney.http.dependencies import Lookup

FOUND = "squinney_route"
REQUEST = "squinney_request"
MAX_UNKNOWN = 20  # named in an error


# ---- the API refuses unknown query parameters, like unknown fields of a body; pages ignore them ----


async def _refuse_unknown(request: Request) -> None:
    if request.scope["query_string"]:
        _require_known(request, _names(request.scope["route"].dependant))


reject_unknown_queries = Depends(_refuse_unknown)


def _require_known(request: Request, known: set[str]) -> None:
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise Invalid(
            f"unknown query parameter {unknown[0][:100]!r}; allowed: {', '.join(sorted(known)) or 'none'}",
            field=unknown[0][:100],
            unknown=[name[:100] for name in unknown[:MAX_UNKNOWN]],
        )


def _names(dependant: Any) -> set[str]:
    """Return the names of the query parameters of a route and of its dependencies."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*(_names(inner) for inner in dependant.dependencies))


# ---- routes ----


class OneThreadRoute(APIRoute):
    """A route of the API, which needs a key, and refuses unknown query parameters.

    It serialises the result in the endpoint's own thread. FastAPI does that in a second thread, which takes a third of
    the time of a read.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        model = options.get("response_model")
        has_model = model is not None and not isinstance(model, DefaultPlaceholder)
        if not inspect.iscoroutinefunction(endpoint):
            endpoint = _with_lookups(endpoint)
            if has_model:
                endpoint = _serialising(endpoint, model, options.get("status_code") or 200)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Check the query parameters first. As a dependency this check would take a tenth of the time of a read."""
        known = _names(self.dependant)
        handle = super().get_route_handler()

        async def handle_known(request: Request) -> Response:
            if request.scope["query_string"]:
                _require_known(request, known)
            return await handle(request)

        return with_key(self, handle_known)


class SuffixRoute(OneThreadRoute):
    """A route with a fixed suffix after a `:path` parameter, which matches the suffix in the undecoded URL.

    For `/stock/{sku:path}/movements`, the URL `/stock/a%2Fmovements` does not match: it names the SKU `a/movements`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only if the last segment of the undecoded URL is the suffix."""
        suffix = self.path.rpartition("}/")[2]
        sent = unquote((scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].rpartition(b"/")[2])
        if "{" not in suffix and ":path}/" in self.path and sent != suffix:
            return Match.NONE, {}
        return super().matches(scope)


def _with_lookups(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Resolve the endpoint's `Lookup`s here: through FastAPI, one takes as long as the rest of the route."""
    signature = inspect.signature(endpoint, eval_str=True)
    parameters = signature.parameters.values()
    lookups = {parameter.name: lookup for parameter in parameters if (lookup := _lookup_of(parameter.annotation))}
    if not lookups:
        return endpoint
    others = [
        parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters if parameter.name not in lookups
    ]
    request_name = next((parameter.name for parameter in others if parameter.annotation is Request), None)
    if request_name is None:
        others.append(inspect.Parameter(REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request))

    @functools.wraps(endpoint)
    def look_up(**given: Any) -> Any:
        request = given[request_name] if request_name else given.pop(REQUEST)
        systems = request.app.state.assembled
        return endpoint(**given, **{name: lookup.find(systems) for name, lookup in lookups.items()})

    look_up.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return look_up


def _lookup_of(annotation: Any) -> Lookup[Any] | None:
    dependencies = [getattr(metadata, "dependency", None) for metadata in getattr(annotation, "__metadata__", ())]
    return next((dependency for dependency in dependencies if isinstance(dependency, Lookup)), None)


def _serialising(endpoint: Callable[..., Any], model: Any, status: int) -> Callable[..., Response]:
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    @functools.wraps(endpoint)
    def respond(*args: Any, **kwargs: Any) -> Response:
        result = endpoint(*args, **kwargs)
        if isinstance(result, Response):
            return result
        checked = adapter.validate_python(result, from_attributes=True)
        return Response(adapter.dump_json(checked, by_alias=True), status, media_type="application/json")

    return respond


# ---- the route table ----


class SystemRoutes(BaseRoute):
    """An entry of the route table that stands for all routes of one router."""

    def __init__(self, router: APIRouter) -> None:
        self.original_router = router
        # Content has two prefixes: `/api/content` and `/api/comments`.
        self._prefixes = tuple({"/".join(path.split("/")[:3]) for path in paths_of(router)})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the first route that matches, else the first that matches except for its method."""
        partial: tuple[Match, Scope] = (Match.NONE, {})
        if not scope["path"].startswith(self._prefixes):
            return partial
        for route in self.original_router.routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, FOUND: route}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, {**child, FOUND: route}
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[FOUND].handle(scope, receive, send)


def expanded(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield every route, with each `SystemRoutes` replaced by the routes of its router."""
    for route in routes:
        yield from route.original_router.routes if isinstance(route, SystemRoutes) else [route]


def routes_with_paths(routes: Iterable[Any], before: str = "", within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every route with its full path, also those of nested routers, which newer FastAPI versions do not flatten.

    The paths of a router's own routes contain its prefix (`within`); those of a router that it includes do not.
    """
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_with_paths(inner.routes, before + within, inner.prefix)
        else:
            yield before + getattr(route, "path_format", route.path), route


def paths_of(router: APIRouter) -> set[str]:
    """Return the paths of a router's routes."""
    return {path for path, _ in routes_with_paths(router.routes, within=router.prefix)}


# ---- HEAD: the response of GET without its body ----


class HeadMiddleware:
    """Answers HEAD with the GET route, without the body. A route with a costly body can check `request.state.head`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["head"] = True
        inner = {**scope, "method": "GET"}
        ended = False

        async def without_body(message: Message) -> None:
            nonlocal ended
            if message["type"] != "http.response.body":
                scope["route"] = inner.get("route")  # read by the outer middleware, which count requests by route
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b""})

        await self._app(inner, receive, without_body)
