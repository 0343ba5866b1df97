"""Query strings: a parameter that nobody reads is refused, as an unknown field of a body is."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request

from squinney.errors import Invalid

# What campaigns and other sites add to links that people follow; to pages they mean nothing.
ADDED_BY_OTHERS = ("utm_", "mc_", "pk_", "mtm_", "_g")
ADDED_WHOLE = {"fbclid", "gclid", "dclid", "msclkid", "yclid", "igshid", "ref"}
MOST_NAMED = 20


async def _refuse_unknown(request: Request) -> None:
    given = request.query_params
    if not given:
        return
    route = request.scope["route"]
    known = _names(route.dependant)
    unknown = [name for name in given if name not in known and not _is_added(request.url.path, name)]
    if unknown:
        raise Invalid(
            f"there is no query parameter {unknown[0][:100]!r} here; there is {', '.join(sorted(known)) or 'none'}",
            field=unknown[0][:100],
            unknown=[name[:100] for name in unknown[:MOST_NAMED]],
        )


known_queries_only = Depends(_refuse_unknown)


def _names(dependant: Any) -> set[str]:
    """The query parameters of a route and of all that it depends on."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*(_names(inner) for inner in dependant.dependencies))


def _is_added(path: str, name: str) -> bool:
    return not path.startswith("/api/") and (name in ADDED_WHOLE or name.startswith(ADDED_BY_OTHERS))
