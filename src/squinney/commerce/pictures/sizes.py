"""Decodes an uploaded image and encodes it in the sizes that pages show. Only this module needs Pillow."""

from __future__ import annotations

import io
import threading
from typing import IO

from squinney.commerce.pictures.documents import Size
from squinney.errors import Invalid

WIDTHS = (320, 640, 1_280)
FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
MAX_PIXELS = 50_000_000
_DECODERS = threading.BoundedSemaphore(2)  # decoding takes much memory


def sizes_of(file: IO[bytes]) -> list[tuple[Size, bytes]]:
    """Return the image in each width that it has, as WebP without the camera's metadata, smallest first.

    Raises: `Invalid` if it is not an image of an accepted format, or too large.
    """
    from PIL import Image, ImageOps  # imported here, because only uploads need Pillow

    try:
        with _DECODERS, Image.open(file, formats=FORMATS) as image:
            # guard: an image with too many pixels is not decoded
            if image.width * image.height > MAX_PIXELS:
                raise Invalid(f"an image may have at most {MAX_PIXELS} pixels", field="picture", limit=MAX_PIXELS)
            image.draft("RGB", (2 * WIDTHS[-1], 2 * WIDTHS[-1]))
            upright = ImageOps.exif_transpose(image).convert("RGBA" if "A" in image.getbands() else "RGB")
    except Image.DecompressionBombError:
        raise Invalid(f"an image may have at most {MAX_PIXELS} pixels", field="picture", limit=MAX_PIXELS) from None
    except Invalid:
        raise
    except Exception as error:  # decoders raise nearly any exception for a broken image
        raise Invalid("the picture must be a JPEG, PNG, GIF or WebP image", field="picture") from error
    widths = [width for width in WIDTHS if width < upright.width]
    wanted = [*widths, min(upright.width, WIDTHS[-1])] if len(widths) < len(WIDTHS) else list(WIDTHS)
    return [_encoded(upright, width) for width in wanted]


def _encoded(image: object, width: int) -> tuple[Size, bytes]:
    from PIL import Image

    assert isinstance(image, Image.Image)
    height = max(1, round(image.height * width / image.width))
    target = io.BytesIO()
    image.resize((width, height), Image.Resampling.LANCZOS).save(target, "WEBP", quality=82)
    return {"width": width, "height": height, "type": "image/webp"}, target.getvalue()
