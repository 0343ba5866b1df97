"""`/shop/admin/pictures`: the forms with which editors add and remove pictures of products."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Request, UploadFile
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from squinney.commerce.surface.dependencies import Shop, ShopDep
from squinney.errors import SquinneyError, Unavailable
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs
from squinney.http.pages import redirect
from squinney.http.threads import PHOTOS

router = APIRouter(route_class=PageRoute)

Text = Annotated[str, Form(max_length=500)]


@router.post("/admin/pictures", dependencies=[needs("editor")])
async def add_picture(
    request: Request, shop: ShopDep, sku: Text, picture: Annotated[UploadFile, File()], alt: Text = ""
) -> Response:
    """Add an uploaded picture to a product."""
    try:
        return await PHOTOS.run(partial(_add, request, shop, sku, picture, alt))
    except Unavailable as error:  # too many pictures are waiting
        return await run_in_threadpool(_to_product, request, sku, error.message, "bad")


def _add(request: Request, shop: Shop, sku: str, picture: UploadFile, alt: str) -> Response:
    try:
        shop.pictures.add(sku, picture.file, alt=alt)
    except SquinneyError as error:
        return _to_product(request, sku, error.message, "bad")
    return _to_product(request, sku, "The picture was added.")


@router.post("/admin/pictures/remove", dependencies=[needs("editor")])
def remove_picture(request: Request, shop: ShopDep, sku: Text, picture: Text) -> Response:
    """Remove a picture of a product."""
    try:
        shop.pictures.remove(sku, picture)
    except SquinneyError as error:
        return _to_product(request, sku, error.message, "bad")
    return _to_product(request, sku, "The picture was removed.")


def _to_product(request: Request, sku: str, message: str, kind: str = "good") -> Response:
    return redirect(request, f"/shop/admin/products/edit?sku={quote(sku, safe='')}", message, kind)
