"""Pictures that move: whether a GIF is whole, and a rendition for the web with all its frames."""

from __future__ import annotations

import io
import math
from typing import IO

from PIL import Image

from squinney.content.errors import BadMedia

FORMATS = ("GIF", "WEBP", "PNG")
MOST_FRAMES = 2_000
MOST_PIXELS = 250_000_000  # over all frames, to be decoded
MOST_KEPT_PIXELS = 32_000_000  # over all frames of the rendition: they are in memory together
GIF_IMAGE, GIF_EXTENSION = 0x2C, 0x21


def frames_of(image: Image.Image, file: IO[bytes]) -> int:
    """How many frames an image has, of which all are there.

    Raises: `BadMedia` for a GIF that is cut short, and for more frames than can be shown.
    """
    if image.format == "GIF":
        at = file.tell()
        _require_whole_gif(file)
        file.seek(at)
    frames = int(getattr(image, "n_frames", 1)) if image.format in FORMATS else 1
    if frames > 1 and frames * image.width * image.height > MOST_PIXELS:
        what = f"{frames} frames of {image.width} x {image.height}"
        raise BadMedia(
            f"an animation has at most {MOST_PIXELS} pixels in all; this has {what}", field="file", limit=MOST_PIXELS
        )
    return frames


def rendition(image: Image.Image, frames: int, side: int) -> tuple[bytes, tuple[int, int]]:
    """All frames as WebP, none of whose sides is longer than `side`, and smaller where there are many."""
    pixels = frames * image.width * image.height
    scale = min(1.0, side / max(image.size), math.sqrt(MOST_KEPT_PIXELS / pixels))
    size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
    shown: list[Image.Image] = []
    durations: list[int] = []
    for number in range(frames):
        image.seek(number)
        frame: Image.Image = image.convert("RGBA")
        shown.append(frame if frame.size == size else frame.resize(size))
        durations.append(int(image.info.get("duration") or 100))
    target = io.BytesIO()
    again = {"save_all": True, "append_images": shown[1:], "duration": durations, "loop": _loop(image)}
    shown[0].save(target, "WEBP", quality=80, method=2, **again)
    return target.getvalue(), size


def _loop(image: Image.Image) -> int:
    """How often it is shown, 0 for ever; a GIF says how often again, or nothing."""
    if image.format != "GIF":
        return int(image.info.get("loop", 0))
    again = image.info.get("loop")
    return 1 if again is None else int(again) + 1 if again else 0


def _require_whole_gif(file: IO[bytes]) -> None:
    """Walk over the blocks: a decoder shows what it has of a GIF that is cut short, and says nothing."""
    file.seek(0)
    body = file.read()
    at = 13 + _colours(body, 10)
    frames = 0
    while at < len(body) and body[at] in (GIF_IMAGE, GIF_EXTENSION):
        if body[at] == GIF_IMAGE:
            frames += 1
            at = _behind_blocks(body, at + 11 + _colours(body, at + 9))
        else:
            at = _behind_blocks(body, at + 2)
        if frames > MOST_FRAMES:
            raise BadMedia(f"an animation has at most {MOST_FRAMES} frames", field="file", limit=MOST_FRAMES)
    if not frames or at > len(body):
        raise BadMedia("the image is broken or cut short", field="file")


def _colours(body: bytes, at: int) -> int:
    """The size of the colour table that the flags at a place announce."""
    if at >= len(body):
        return 0
    return 3 << (body[at] & 7) + 1 if body[at] & 0x80 else 0


def _behind_blocks(body: bytes, at: int) -> int:
    """The place behind a row of data blocks; behind the end of the file where the row does not end."""
    while at < len(body):
        if body[at] == 0:
            return at + 1
        at += body[at] + 1
    return len(body) + 1
