"""Animated images: a check that a GIF is complete, and a rendition for the web with all frames."""

from __future__ import annotations

import io
import math
from typing import IO

from PIL import Image

from squinney.content.errors import BadMedia

FORMATS = ("GIF", "WEBP", "PNG")
MAX_FRAMES = 2_000
MAX_PIXELS = 250_000_000  # of all frames together, to bound the time of decoding
MAX_RENDITION_PIXELS = 32_000_000  # of all frames of the rendition, which are in memory at once
GIF_IMAGE, GIF_EXTENSION = 0x2C, 0x21


def frames_of(image: Image.Image, file: IO[bytes]) -> int:
    """Return the number of frames; raise `BadMedia` for a truncated GIF or for too many frames or pixels."""
    if image.format == "GIF":
        at = file.tell()
        # guard: a truncated GIF is refused
        _require_complete_gif(file)
        file.seek(at)
    frames = int(getattr(image, "n_frames", 1)) if image.format in FORMATS else 1
    # guard: the number of frames is limited in every format
    _require_few(frames)
    # guard: the pixels of all frames together are limited
    if frames > 1 and frames * image.width * image.height > MAX_PIXELS:
        what = f"{frames} frames of {image.width} x {image.height}"
        raise BadMedia(
            f"an animation may have at most {MAX_PIXELS} pixels in all; this has {what}",
            field="file",
            limit=MAX_PIXELS,
        )
    return frames


def rendition(image: Image.Image, frames: int, side: int) -> tuple[bytes, tuple[int, int]]:
    """Return an animated WebP and its size: no side is longer than `side`, and many frames make it smaller."""
    pixels = frames * image.width * image.height
    scale = min(1.0, side / max(image.size), math.sqrt(MAX_RENDITION_PIXELS / pixels))
    size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
    shown: list[Image.Image] = []
    durations: list[int] = []
    for number in range(frames):
        image.seek(number)
        frame: Image.Image = image.convert("RGBA")
        shown.append(frame if frame.size == size else frame.resize(size))
        durations.append(int(image.info.get("duration") or 100))
    target = io.BytesIO()
    options = {"save_all": True, "append_images": shown[1:], "duration": durations, "loop": _loop(image)}
    shown[0].save(target, "WEBP", quality=80, method=2, **options)
    return target.getvalue(), size


def _loop(image: Image.Image) -> int:
    """Return how often the animation is shown, 0 for ever. A GIF stores the number of repetitions, or nothing."""
    if image.format != "GIF":
        return int(image.info.get("loop", 0))
    repetitions = image.info.get("loop")
    return 1 if repetitions is None else int(repetitions) + 1 if repetitions else 0


def _require_complete_gif(file: IO[bytes]) -> None:
    """Check the GIF's structure block by block, because decoders accept a truncated GIF without an error."""
    file.seek(0)
    body = file.read()
    at = 13 + _colour_table_bytes(body, 10)
    frames = 0
    while at < len(body) and body[at] in (GIF_IMAGE, GIF_EXTENSION):
        if body[at] == GIF_IMAGE:
            frames += 1
            at = _after_blocks(body, at + 11 + _colour_table_bytes(body, at + 9))
        else:
            at = _after_blocks(body, at + 2)
        _require_few(frames)
    if not frames or at > len(body):
        raise BadMedia("the image is broken or truncated", field="file")


def _require_few(frames: int) -> None:
    if frames > MAX_FRAMES:
        raise BadMedia(f"an animation may have at most {MAX_FRAMES} frames", field="file", limit=MAX_FRAMES)


def _colour_table_bytes(body: bytes, at: int) -> int:
    """Return the size of the colour table that the flags at this position announce."""
    if at >= len(body):
        return 0
    return 3 << (body[at] & 7) + 1 if body[at] & 0x80 else 0


def _after_blocks(body: bytes, at: int) -> int:
    """Return the position after a sequence of data blocks; after the end of the file if the sequence has no end."""
    while at < len(body):
        if body[at] == 0:
            return at + 1
        at += body[at] + 1
    return len(body) + 1
