"""Pictures: animations, truncated files, formats and memory."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from PIL import Image, ImageSequence

from squinney.content import BadMedia
from squinney.content.files import animations, media

LARGE = """
import io, resource
from PIL import Image
from squinney.content.files import media
file = io.BytesIO()
Image.new("I;16", (7_000, 7_000)).save(file, "PNG", compress_level=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = media.decoded_picture(file)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(found.web_width, found.web_height, (after - before) // 1024)
"""


def moving(kind: str, size: tuple[int, int] = (40, 30), frames: int = 3) -> bytes:
    pictures = [Image.new("RGB", size, (80 * number % 256, 0, number % 256)) for number in range(frames)]
    target = io.BytesIO()
    pictures[0].save(target, kind, save_all=True, append_images=pictures[1:], duration=[100, 200, 300][:frames], loop=0)
    return target.getvalue()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_animations_keep_their_frames(kind: str) -> None:
    found = media.decoded_picture(io.BytesIO(moving(kind)))
    assert (found.web_type, found.width, found.height, found.web_width, found.web_height) == (
        "image/webp",
        40,
        30,
        40,
        30,
    )
    web = Image.open(io.BytesIO(found.web))
    assert (web.format, web.n_frames, web.info["loop"]) == ("WEBP", 3, 0)
    durations, reds = [], []
    for frame in ImageSequence.Iterator(web):
        frame.load()
        durations.append(frame.info["duration"])
        reds.append(frame.convert("RGB").getpixel((5, 5))[0])
    assert durations == [100, 200, 300]
    assert [abs(red - wanted) < 12 for red, wanted in zip(reds, (0, 80, 160), strict=True)] == [True] * 3


def test_a_long_animation_is_made_smaller_and_one_too_long_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animations, "MAX_RENDITION_PIXELS", 900)
    assert media.decoded_picture(io.BytesIO(moving("GIF"))).web_width == 20
    monkeypatch.setattr(animations, "MAX_PIXELS", 3_000)
    with pytest.raises(BadMedia, match="at most 3000 pixels in all; this has 3 frames of 40 x 30"):
        media.decoded_picture(io.BytesIO(moving("WEBP")))
    monkeypatch.undo()
    monkeypatch.setattr(animations, "MAX_FRAMES", 2)
    for kind in ("GIF", "WEBP", "PNG"):
        with pytest.raises(BadMedia, match="at most 2 frames"):
            media.decoded_picture(io.BytesIO(moving(kind)))


def test_a_gif_that_is_cut_short_is_refused_wherever_it_was_cut() -> None:
    noisy = io.BytesIO()
    Image.effect_noise((60, 60), 90).save(noisy, "GIF")
    whole = noisy.getvalue()
    assert media.decoded_picture(io.BytesIO(whole)).width == 60
    assert media.decoded_picture(io.BytesIO(whole[:-1])).width == 60, (
        "only the mark of the end is missing: all of it is there"
    )
    for left in (14, 700, len(whole) // 2, len(whole) - 300, len(whole) - 2):
        with pytest.raises(BadMedia):
            media.decoded_picture(io.BytesIO(whole[:left]))


@pytest.mark.parametrize(("brand", "name"), [(b"heic", "image/heic"), (b"avif", "image/avif"), (b"M4A ", "audio/mp4")])
def test_what_begins_like_a_video_and_is_none_is_named(brand: bytes, name: str) -> None:
    head = b"\0\0\0\x18ftyp" + brand + b"\0\0\0\0" + brand + b"mp42"
    for kind in ("photo", "video"):
        with pytest.raises(BadMedia, match=f"this is {name}"):
            media.content_type(head, kind)
    assert media.content_type(head.replace(brand, b"isom"), "video") == "video/mp4"


def test_a_small_file_of_many_pixels_takes_little_more_memory_than_its_pixels() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    width, height, megabytes = (int(word) for word in done.stdout.split())
    assert (width, height) == (1_600, 1_600)
    assert megabytes < 200


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_large_picture_is_turned_as_a_small_one_is(orientation: int) -> None:
    """Large images are reduced in strips first."""
    colours = []
    for side in (400, 6_600):
        image = Image.new("RGB", (side, 120), "blue")
        image.paste("red", (0, 0, side // 2, 60))
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = io.BytesIO()
        image.save(file, "PNG", exif=exif)
        found = media.decoded_picture(file)
        web = Image.open(io.BytesIO(found.web))
        assert (found.width > found.height) == (orientation < 5)
        corners = [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)]
        colours.append([web.getpixel((int(x * web.width), int(y * web.height)))[0] > 128 for x, y in corners])
    assert colours[0] == colours[1]
    assert colours[0].index(True) == {1: 0, 2: 1, 3: 3, 4: 2, 5: 0, 6: 1, 7: 3, 8: 2}[orientation]
