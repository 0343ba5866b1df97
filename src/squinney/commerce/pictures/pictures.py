"""`Pictures`: the pictures of products, each one document with all its sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.catalog import queries as catalog_queries
from squinney.commerce.errors import UnknownProduct
from squinney.commerce.pictures import queries, sizes
from squinney.commerce.pictures.documents import Picture, Size, picture_document
from squinney.errors import LimitReached, NotFound
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id

MAX_PICTURES = 20
MAX_PRODUCTS = 1_000


class Pictures:
    """The pictures of products. The first one is shown in lists."""

    def __init__(self, db: Db, *, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._clock = clock

    @operation(30)
    def add(self, sku: str, image: IO[bytes], *, alt: str = "") -> Picture:
        """Store an image as the last picture of a product, in each size that pages show. `alt` describes it in words.

        Atomic: one insert.
        After a crash: nothing remains.
        Raises: `UnknownProduct`; `Invalid` if it is no image; `LimitReached` if the product has 20 pictures.
        """
        checks.text(alt, "alt", max_length=500)
        product = catalog_queries.PRODUCT.find_one(self._db, sku=checks.identifier(sku, "sku"))
        if product is None:
            raise UnknownProduct(f"there is no product {sku}", sku=sku)
        if len(self.of([product]).get(sku, ())) >= MAX_PICTURES:
            raise LimitReached(f"a product has at most {MAX_PICTURES} pictures", field="picture", limit=MAX_PICTURES)
        product_id = product.get("added_id", "")
        document = picture_document(new_id(), sku, product_id, alt, self._clock(), sizes.sizes_of(image))
        self._db["commerce.pictures"].insert_one(dict(document))
        return _without_bytes(document)

    @operation(reads_only=True)
    def of(self, products: Iterable[Mapping[str, Any]]) -> dict[str, list[Picture]]:
        """Return the pictures of up to 1,000 products by SKU, oldest first, without their bytes. One query."""
        ids = {product["_id"]: product.get("added_id", "") for product in products}
        by_sku: dict[str, list[Picture]] = {}
        if not ids:
            return by_sku
        checks.integer(len(ids), "products", maximum=MAX_PRODUCTS)
        for picture in queries.PICTURES_OF.find(self._db, skus=list(ids), projection=queries.WITHOUT_BYTES):
            # guard: a product does not show the pictures of a removed one that had its SKU
            if picture["product_id"] == ids[picture["sku"]]:
                by_sku.setdefault(picture["sku"], []).append(cast(Picture, picture))
        return by_sku

    @operation(reads_only=True)
    def read(self, sku: str, picture_id: str, width: int) -> tuple[Size, bytes]:
        """Return the smallest size that is at least that wide, or else the widest one, with its bytes.

        Raises: `NotFound`.
        """
        checks.integer(width, "width", minimum=1, maximum=100_000)
        checks.identifier(sku, "sku")
        checks.identifier(picture_id, "picture")
        picture = queries.PICTURE.find_one(self._db, sku=sku, picture_id=picture_id)
        if picture is None:
            raise NotFound("there is no such picture", sku=sku)
        stored = next((size for size in picture["sizes"] if size["width"] >= width), picture["sizes"][-1])
        size: Size = {"width": stored["width"], "height": stored["height"], "type": stored["type"]}
        return size, bytes(stored["bytes"])

    @operation()
    def remove(self, sku: str, picture_id: str) -> None:
        """Remove a picture.

        Raises: `NotFound`.
        """
        where = queries.PICTURE(sku=checks.identifier(sku, "sku"), picture_id=checks.identifier(picture_id, "picture"))
        if not self._db["commerce.pictures"].delete_one(where).deleted_count:
            raise NotFound("there is no such picture", sku=sku)

    @operation(60)
    def forget_lost(self) -> Counter[str]:
        """Delete the pictures of products that were removed.

        Atomic: each picture separately.
        After a crash: run it again.
        """
        counts: Counter[str] = Counter()
        for lost in queries.LOST_PICTURES.run(self._db):
            where = queries.PICTURE(sku=lost["sku"], picture_id=lost["_id"])
            counts["forgotten"] += self._db["commerce.pictures"].delete_one(where).deleted_count
        return +counts


def _without_bytes(document: Mapping[str, Any]) -> Picture:
    shown = [{name: value for name, value in size.items() if name != "bytes"} for size in document["sizes"]]
    return cast(Picture, {**document, "sizes": shown})
