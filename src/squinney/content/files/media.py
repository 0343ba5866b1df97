"""The type of an uploaded file, read from its bytes and never from its name, and the rendition of a picture.

Web pages show a rendition: rotated upright, with all frames of an animation, and without the camera's metadata, such as
the GPS position. Only editors get the original with its metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from squinney.content.errors import BadMedia

SIGNATURES: list[tuple[bytes, int, str]] = [
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x1a\x45\xdf\xa3", 0, "video/webm"),
]
# Other formats that begin like an MP4 file, by their brand.
BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "image/heic"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio/mp4"),
    b"crx ": "image/x-canon-cr3",
}
KINDS = {"photo": "image/", "video": "video/"}
MAX_PIXELS = 50_000_000
MAX_BYTES = {"photo": 50 * 2**20, "video": 20 * 2**30}
WEB_SIDE = 1_600


@dataclass(frozen=True)
class Picture:
    """An image's size, rotated upright, and its rendition for the web."""

    width: int
    height: int
    web: bytes
    web_type: str
    web_width: int
    web_height: int


def content_type(head: bytes, kind: str) -> str:
    """Return the content type that the first bytes show, or raise `BadMedia` if this kind of node may not have it."""
    detected = next((type_ for mark, at, type_ in SIGNATURES if head[at : at + len(mark)] == mark), None)
    if detected == "video/mp4":  # a family of formats, distinguished by the brand after the signature
        # guard: the MP4 brand tells videos from other formats
        detected = BRANDS.get(head[8:12], detected)
    accepted = sorted({type_ for _, _, type_ in SIGNATURES if type_.startswith(KINDS[kind])})
    if detected not in accepted:
        what = detected or "another type"
        raise BadMedia(f"a {kind} must be one of {', '.join(accepted)}; this is {what}", field="file", found=detected)
    return detected


def decoded_picture(file: IO[bytes]) -> Picture:
    """Decode the whole image and make its rendition; raise `BadMedia` if it is broken, truncated or too large."""
    try:  # imported here, because nodes and comments work without Pillow
        from squinney.content.files import pictures
    # guard: a missing image library names the extra to install
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("photos need Pillow: pip install 'squinney[content]'", name=error.name) from error
    return pictures.decoded_picture(file)
