"""Limits for what new accounts write in public, counted across all processes: they are what spam comes from."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from fastapi import Request

from squinney.clock import utcnow
from squinney.errors import TooManyRequests
from squinney.http.access.permissions import signed_in
from squinney.http.site_options import SiteOptions
from squinney.roles import may_act_as

# Whatever a text may render as a link: addresses, also without a scheme, and the three kinds of links of Markdown.
# guard: links of every kind are counted
LINK = re.compile(r"https?:|www\.|//|\][(:\[]|<[^<>\s]+@", re.IGNORECASE)


def count_public_text(request: Request, *texts: str) -> None:
    """Count a text that a signed-in visitor publishes; editors, older accounts and people of a host are not limited.

    Raises: `TooManyRequests` if the account is new and has written too much, or too many texts with links;
    `SignInNeeded`.
    """
    person: Any = signed_in(request)
    options: SiteOptions = request.app.state.options
    limits = request.app.state.assembled.services.get("identity", {}).get("new_accounts")
    created_at = person.get("created_at")
    is_new = created_at is not None and utcnow() - created_at < timedelta(hours=options.new_account_hours)
    if limits is None or not is_new or may_act_as(person["role"], "editor"):
        return
    kinds = ["minute", "hour", *(["links"] if any(LINK.search(text) for text in texts) else [])]
    for kind in kinds:
        try:
            # guard: a new account publishes only a few texts
            limits.count(person["_id"], kind)
        except TooManyRequests as error:
            what = "texts with links" if kind == "links" else "texts"
            message = f"a new account may publish only a few {what} at first; try again later"
            raise TooManyRequests(message, **error.details) from None
