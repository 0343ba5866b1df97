"""What uploaded bytes are, and the picture that the web gets. The type is read from the bytes, never from a name.

The web gets a picture of our own making: turned as the camera was held, without the place where it was taken. The
original, with all that a camera writes into it, is for editors.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from pymongo.errors import PyMongoError

from squinney.content.errors import BadMedia

if TYPE_CHECKING:
    from PIL import Image

SIGNATURES: list[tuple[bytes, int, str]] = [
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x1a\x45\xdf\xa3", 0, "video/webm"),
]
KINDS = {"photo": "image/", "video": "video/"}
FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
MOST_PIXELS = 50_000_000
MOST_BYTES = {"photo": 50 * 2**20, "video": 20 * 2**30}
WEB_SIDE = 1_600
TURNED = {5, 6, 7, 8}
ORIENTATION = 0x0112
RGB = b"RGB "


@dataclass(frozen=True)
class Picture:
    """An image's size as it is seen, and its rendition for the web."""

    width: int
    height: int
    web: bytes
    web_type: str
    web_width: int
    web_height: int


def content_type(head: bytes, kind: str) -> str:
    """The type that the first bytes show.

    Raises: `BadMedia` where it is none that a node of this kind may hold.
    """
    found = next((type_ for mark, at, type_ in SIGNATURES if head[at : at + len(mark)] == mark), None)
    if found is None or not found.startswith(KINDS[kind]):
        accepted = sorted({type_ for _, _, type_ in SIGNATURES if type_.startswith(KINDS[kind])})
        what = found or "something else"
        raise BadMedia(f"a {kind} must be one of {', '.join(accepted)}; this is {what}", field="file", found=found)
    return found


def picture(file: IO[bytes]) -> Picture:
    """Decode the whole image, which proves it sound, and make the rendition.

    Raises: `BadMedia` for one that is broken, cut short or too large.
    """
    try:  # not above: nodes and comments do without Pillow
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("photos need Pillow: pip install 'squinney[content]'", name=error.name) from error
    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise _too_large(f"{width} x {height}")
            turned = image.getexif().get(ORIENTATION) in TURNED
            image.draft("RGB", (2 * WEB_SIDE, 2 * WEB_SIDE))
            web = _web(image)
    except Image.DecompressionBombError:
        raise _too_large("more") from None
    except (BadMedia, PyMongoError):
        raise
    except Exception as error:  # a broken image can raise nearly anything from inside its decoder
        raise BadMedia(f"the image is broken or cut short: {error}"[:300], field="file") from error
    if turned:
        width, height = height, width
    body, type_ = _encoded(web)
    return Picture(width, height, body, type_, web.width, web.height)


def _too_large(found: str) -> BadMedia:
    return BadMedia(f"an image has at most {MOST_PIXELS} pixels; this has {found}", field="file", limit=MOST_PIXELS)


def _web(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):  # 16 bits of grey, which a conversion would cut off at 255
        upright = upright.convert("I").point(lambda grey: grey * (1 / 257)).convert("L")
    transparent = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
    small: Image.Image = upright.convert("RGBA" if transparent else "RGB")
    small.thumbnail((WEB_SIDE, WEB_SIDE))
    profile = upright.info.get("icc_profile") or b""
    small.info = {"icc_profile": profile} if profile[16:20] == RGB else {}  # one for greys or inks fits no more
    return small


def _encoded(image: Image.Image) -> tuple[bytes, str]:
    """Nothing but pixels and the colour profile are written."""
    target = io.BytesIO()
    colours: dict[str, Any] = {"icc_profile": image.info.get("icc_profile")}
    if image.mode == "RGBA":
        image.save(target, "PNG", optimize=True, **colours)
        return target.getvalue(), "image/png"
    image.save(target, "JPEG", quality=85, progressive=True, optimize=True, exif=b"", **colours)
    return target.getvalue(), "image/jpeg"
