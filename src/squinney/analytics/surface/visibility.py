"""Who sees the reports of which sites on pages: everybody those of public sites, editors those of all."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import Request

from squinney.analytics.reports.reports import Reports
from squinney.errors import Forbidden
from squinney.http.access.permissions import signed_in
from squinney.http.access.visitor import visitor_of
from squinney.roles import may_act_as


def is_editor(request: Request) -> bool:
    """Return whether the visitor is an editor, who sees links to what is for editors only."""
    return may_act_as(visitor_of(request).role, "editor")


def hidden_sites(request: Request, reports: Reports) -> set[str]:
    """Return the names of the sites whose reports the visitor does not see."""
    return set() if is_editor(request) else reports.private_sites()


def visible_sites(request: Request, reports: Reports, sites: Iterable[str]) -> list[str]:
    """Return those of the sites whose reports the visitor sees."""
    hidden = hidden_sites(request, reports)
    return [site for site in sites if site not in hidden]


def require_visible(request: Request, reports: Reports, site: str) -> None:
    """Require that the visitor sees the reports of the site.

    Raises: `SignInNeeded`, `Forbidden`.
    """
    # guard: a private site is for editors
    if site not in hidden_sites(request, reports):
        return
    signed_in(request)
    raise Forbidden("the numbers of this site are for editors", site=site)
