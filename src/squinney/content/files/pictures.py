"""Decoding and scaling of images. Only this module and `animations` need Pillow."""

from __future__ import annotations

import io
import threading
from typing import IO, Any

from PIL import ExifTags, Image, ImageOps
from pymongo.errors import PyMongoError

from squinney.content.errors import BadMedia
from squinney.content.files import animations, media
from squinney.content.files.media import Picture

FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
RGB = b"RGB "
STRIP_PIXELS = 4_000_000
ROTATED = {5, 6, 7, 8}  # EXIF orientations that swap width and height
_DECODERS = threading.BoundedSemaphore(2)  # decoding takes much memory


def decoded_picture(file: IO[bytes]) -> Picture:
    """See `media.decoded_picture`."""
    try:
        with _DECODERS, Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > media.MAX_PIXELS:
                raise _too_large(f"{image.width} x {image.height}")
            frames = animations.frames_of(image, file)
            # guard: an animation keeps its frames
            return _animation(image, frames) if frames > 1 else _still(image)
    except Image.DecompressionBombError:
        raise _too_large("more") from None
    except (BadMedia, PyMongoError):
        raise
    except Exception as error:  # decoders raise nearly any exception for a broken image
        # The decoder's message is for programmers: it may show an object with its address in memory.
        raise BadMedia("the image is broken or truncated", field="file") from error


def _animation(image: Image.Image, frames: int) -> Picture:
    width, height = image.size
    body, size = animations.rendition(image, frames, media.WEB_SIDE)
    return Picture(width, height, body, "image/webp", *size)


def _still(image: Image.Image) -> Picture:
    width, height = image.size
    orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    image.draft("RGB", (2 * media.WEB_SIDE, 2 * media.WEB_SIDE))
    web = _web(image, orientation)
    if orientation in ROTATED:
        width, height = height, width
    body, type_ = _encoded(web)
    return Picture(width, height, body, type_, web.width, web.height)


def _too_large(size: str) -> BadMedia:
    return BadMedia(
        f"an image may have at most {media.MAX_PIXELS} pixels; this has {size}", field="file", limit=media.MAX_PIXELS
    )


def _web(image: Image.Image, orientation: int) -> Image.Image:
    image.load()
    transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    small = _reduced(image, "RGBA" if transparent else "RGB")
    small.thumbnail((media.WEB_SIDE, media.WEB_SIDE))
    small.getexif()[ExifTags.Base.Orientation] = orientation
    small = ImageOps.exif_transpose(small)
    profile = image.info.get("icc_profile") or b""
    small.info = {"icc_profile": profile} if profile[16:20] == RGB else {}  # profiles for grey or CMYK do not fit RGB
    return small


def _reduced(image: Image.Image, mode: str) -> Image.Image:
    """Return the image in another mode, reduced to at most a few times the size of the rendition.

    A large image is converted in strips, because converting it whole would need three times its memory.
    """
    factor = max(image.size) // (2 * media.WEB_SIDE)
    # guard: a large picture is converted in strips
    if factor < 2:
        return _converted(image, mode)
    small = Image.new(mode, (-(-image.width // factor), -(-image.height // factor)))
    step = max(1, STRIP_PIXELS // image.width // factor) * factor
    for top in range(0, image.height, step):
        strip = image.crop((0, top, image.width, min(top + step, image.height)))
        small.paste(_converted(strip, mode).reduce(factor), (0, top // factor))
    return small


def _converted(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grey, which a conversion would clip at 255
        image = image.convert("I").point(lambda grey: grey * (1 / 257)).convert("L")
    return image.convert(mode)


def _encoded(image: Image.Image) -> tuple[bytes, str]:
    """Encode the image with its colour profile and without any other metadata; return the bytes and their type."""
    target = io.BytesIO()
    colours: dict[str, Any] = {"icc_profile": image.info.get("icc_profile")}
    if image.mode == "RGBA":
        image.save(target, "PNG", optimize=True, **colours)
        return target.getvalue(), "image/png"
    image.save(target, "JPEG", quality=85, progressive=True, optimize=True, exif=b"", **colours)
    return target.getvalue(), "image/jpeg"
