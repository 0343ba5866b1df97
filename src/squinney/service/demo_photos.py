"""Photos for the demo of the social network, drawn by code. They need two systems, so they are composed here."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import suppress

from squinney.errors import Conflict
from squinney.service.post_photos import PostPhotos, post_photos
from squinney.social import PUBLIC, Network
from squinney.system import Assembled
from squinney.transactions import Key

Colour = tuple[int, int, int]
Paint = Callable[[float, float], Colour]
WIDTH, HEIGHT = 480, 320
GRAIN = 2  # draw at half the size and enlarge, which takes a quarter of the time
DONE = "photos of posts"


def load_demo_photos(systems: Assembled) -> None:
    """Post some photos as members of the demo, once.

    Atomic: each photo and each post separately.
    After a crash: the next call continues; a stored photo may have no post.
    """
    store = post_photos(systems)
    if store is None or systems.db["demo"].find_one({"_id": DONE}) is not None:
        return
    network: Network = systems.services["social"]["network"]
    for author, name, text, alt, paint in PHOTOS:
        with suppress(Conflict):  # another process posts it
            _post(network, store, author, name, text, alt, paint)
    systems.db["demo"].update_one({"_id": DONE}, {"$set": {"loaded": True}}, upsert=True)


def _post(network: Network, store: PostPhotos, author: str, name: str, text: str, alt: str, paint: Paint) -> None:
    detail = {"text": text, "alt": alt, "file": store.keep(io.BytesIO(_drawn(paint)), author, name)}
    network.post(author, "photo", detail, [PUBLIC], key=Key(f"photo {author}", "social demo"))


def _drawn(paint: Paint) -> bytes:
    from PIL import Image

    width, height = WIDTH // GRAIN, HEIGHT // GRAIN
    image = Image.new("RGB", (width, height))
    image.putdata([paint(x / width, y / height) for y in range(height) for x in range(width)])
    made = io.BytesIO()
    image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(made, "PNG")
    return made.getvalue()


def _mix(one: Colour, two: Colour, share: float) -> Colour:
    share = min(max(share, 0.0), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, two, strict=True))
    return red, green, blue


def _mountains(x: float, y: float) -> Colour:
    """Three ridges in front of a morning sky."""
    for base, height, waves, colour in (
        (0.78, 0.10, 5.0, (38, 52, 66)),
        (0.62, 0.14, 3.1, (74, 92, 112)),
        (0.48, 0.16, 2.2, (126, 142, 160)),
    ):
        ridge = base - height * abs(math.sin(waves * x * math.pi)) - 0.02 * math.sin(31 * x)
        if y > ridge:
            return _mix(colour, (235, 226, 214), (y - ridge) * 0.5)
    if math.hypot(x - 0.7, (y - 0.2) * HEIGHT / WIDTH) < 0.05:
        return 255, 244, 214
    return _mix((247, 196, 148), (126, 160, 196), 1 - y * 1.8)


def _ice(x: float, y: float) -> Colour:
    """Floes on dark water below a pale sky."""
    if y < 0.38:
        return _mix((214, 226, 236), (246, 236, 226), y / 0.38)
    depth = (y - 0.38) / 0.62
    floe = math.sin(26 * x / (0.3 + depth) + 3 * math.sin(9 * depth)) * math.sin(30 * depth**0.7 + 2 * x)
    return _mix((232, 240, 246), (205, 222, 234), depth) if floe > 0.25 else _mix((40, 74, 100), (18, 38, 58), depth)


def _loaf(x: float, y: float) -> Colour:
    """A round loaf with a cross in its crust."""
    across, down = (x - 0.5) * WIDTH / HEIGHT, y - 0.52
    far = math.hypot(across / 1.15, down)
    if far > 0.36:
        return _mix((98, 78, 62), (64, 50, 40), y + 0.05 * math.sin(40 * x))
    crust = _mix((226, 172, 104), (132, 74, 34), far / 0.36)
    cut = min(abs(across - down), abs(across + down))
    return _mix((246, 226, 190), crust, cut / 0.03) if cut < 0.03 and far < 0.28 else crust


PHOTOS: list[tuple[str, str, str, str, Paint]] = [
    ("demo-carla", "Carla Moretti", "The fog stayed below. We did not.", "Three ridges in the morning", _mountains),
    ("demo-eva", "Eva Lindqvist", "It moves if you listen.", "Ice floes on dark water", _ice),
    ("demo-ben", "Ben Okafor", "No. 413, for @ada-brandt.", "A round loaf with a cross in its crust", _loaf),
]
