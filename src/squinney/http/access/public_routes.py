"""The routes that answer without a caller. Every other route asks for an API key or for a person who has signed in.

`docs/service.md` shows this table, and a test compares the two. Another test calls every route of every router in an
application without our middleware, and fails if a route that is not listed here answers.
"""

from __future__ import annotations

from collections.abc import Iterable

PUBLIC_ROUTES = {
    "GET /healthz": "health of the process",
    "GET /readyz": "health of the database and the jobs",
    "GET /metrics": "numbers for Prometheus; let the proxy refuse it to the public",
    "GET /api/openapi.json": "the description of the API",
    "GET /api/docs": "the same as a page",
    "GET /": "the home page",
    "GET /robots.txt": "what search engines should leave out",
    "GET /sitemap.xml": "the pages that everyone may read",
    "GET /prove": "the running proof, or the last one",
    "GET /prove/schedule": "one schedule of two transfers, command by command",
    "GET /behind": "how a page was made, for those who may look: in a demo everybody, else admins",
    "GET /behind/source": "our source files, for the same people",
    "POST /prove": "starting a proof, unless one runs",
    "POST /prove/kill": "killing workers of the running proof",
    "GET /prove/events": "the running proof, live",
    "POST /ads-consent": "a visitor's choice about ads, kept in a cookie",
    "POST /try-as": "signing in as somebody of the demo; exists only on one's own machine",
    "GET /sign-in": "the form to sign in",
    "POST /sign-in": "signing in",
    "GET /sign-up": "the form to sign up",
    "POST /sign-up": "signing up, unless it is closed",
    "POST /sign-out": "ends the session of the cookie, if there is one",
    "GET /welcome": "the form of an invitation, whose token is in the link",
    "POST /welcome": "accepting an invitation",
    "GET /analytics": "the numbers of the site",
    "GET /analytics/panels/{name}": "the numbers of the site",
    "GET /analytics/panels/{name}.csv": "the numbers of the site",
    "GET /analytics/now": "how many are on the site",
    "GET /analytics/view": "counts the view of a page that a cache has answered",
    "GET /analytics/funnel": "the numbers of the site",
    "GET /analytics/goals": "the numbers of the site",
    "GET /analytics/shared": "the numbers of one site, for whoever has the link to share it",
    "GET /analytics/shared/now": "how many are on the site of such a link",
    "GET /analytics/shared/panels/{name}": "a panel of the site of such a link",
    "GET /analytics/shared/panels/{name}.csv": "a panel of the site of such a link",
    "GET /analytics/hits": "charts of the site's views",
    "GET /analytics/charts/{unit}": "charts of the site's views",
    "GET /analytics/top": "the most viewed pages",
    "GET /analytics/series.csv": "the numbers of a chart",
    "GET /shop": "products",
    "GET /shop/products/{sku:path}": "a product",
    "GET /shop/pictures/{picture_id}": "a picture of a product",
    "GET /shop/stock": "how many pieces of products are left",
    "GET /shop/cart": "the cart of the visitor's cookie",
    "POST /shop/cart/items": "adding to the cart of the visitor's cookie",
    "POST /shop/cart/quantity": "changing the cart of the visitor's cookie",
    "POST /shop/cart/checkout": "ordering what is in the cart of the visitor's cookie",
    "GET /shop/orders/{order_id}": "an order, for the visitor who ordered it",
    "GET /site": "pages that everyone may read",
    "GET /site/": "pages that everyone may read",
    "GET /site/-/tags/{tag}": "pages that everyone may read",
    "GET /site/-/asset/{node_id}": "photos and videos that everyone may see",
    "GET /site/-/feed/{node_id}.{kind}": "feeds of pages that everyone may read",
    "GET /site/{path:path}": "pages that everyone may read",
    "GET /social": "what the network is, and public posts",
    "GET /social/people": "the members",
    "GET /social/people/{handle}": "a member's profile and public posts",
    "GET /social/posts/{post}": "a public post",
    "GET /social/photos/{post}": "the photo of a public post",
    "GET /game": "what the game is",
    "GET /ledger": "what the ledger is; in a demo, the statement of the shop's till",
    "GET /ads": "what the ads of this site are",
    "GET /ads/seen/{serve_id}": "a signed link of an ad that was shown",
    "GET /ads/viewable/{serve_id}": "a signed link of an ad that was shown",
    "GET /ads/click/{serve_id}": "a signed link of an ad that was shown",
}


def is_public(methods: Iterable[str], path: str) -> bool:
    """Return whether a route with this path is public for all of its methods."""
    return all(f"{method} {path}" in PUBLIC_ROUTES for method in methods)
