"""Images made for tests."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from typing import Any

from PIL import Image


def jpeg(colour: Any = "red", size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, colour).save(target, "JPEG", **options)
    return target.getvalue()


def noise(side: int) -> bytes:
    """Return a JPEG of noise, which does not compress, for files of many chunks."""
    target = io.BytesIO()
    grains = random.Random(side).randbytes(side * side)  # the same in every process
    Image.frombytes("L", (side, side), grains).convert("RGB").save(target, "JPEG", quality=95)
    return target.getvalue()


def jpeg_from_a_camera() -> bytes:
    """Return a JPEG with EXIF: rotated by the camera, and with a GPS position in Paris."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "Camera"
    gps = exif.get_ifd(0x8825)
    gps[1], gps[2] = "N", (48.0, 51.0, 24.0)
    return jpeg(size=(80, 40), exif=exif)


def png_header(width: int, height: int) -> bytes:
    """Return a PNG whose header claims this size, with only a few bytes of pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 10_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def zip_bomb() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros", b"\0" * 10_000_000)
    return target.getvalue()
