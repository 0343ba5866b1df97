"""Pictures of places in the town, drawn with Pillow: the same name always gives the same picture."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from typing import Any

WIDTH, HEIGHT = 1_080, 720
Rgb = tuple[int, int, int]
Paint = Callable[[Any, random.Random], None]


def scene(kind: str, name: str) -> io.BytesIO:
    """Return a picture of a place of this kind, as a JPEG file."""
    from PIL import Image, ImageDraw, ImageFilter

    rng = random.Random(f"{kind}/{name}")
    sky, ground, paint = SCENES[kind]
    image = _gradient(Image, sky, ground)
    draw = ImageDraw.Draw(image)
    paint(draw, rng)
    # One soft pass takes the steps off all edges.
    image = image.filter(ImageFilter.GaussianBlur(0.7))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    file.seek(0)
    return file


def _gradient(pillow: Any, top: Rgb, bottom: Rgb) -> Any:
    mask = pillow.linear_gradient("L").resize((WIDTH, HEIGHT))
    size = (WIDTH, HEIGHT)
    return pillow.composite(pillow.new("RGB", size, bottom), pillow.new("RGB", size, top), mask)


def _mix(first: Rgb, second: Rgb, share: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _disc(draw: Any, x: float, y: float, r: float, colour: Rgb) -> None:
    draw.ellipse([x - r, y - r, x + r, y + r], fill=colour)


def _stars(draw: Any, rng: random.Random, count: int, until: int) -> None:
    for _ in range(count):
        _disc(draw, rng.randint(0, WIDTH), rng.randint(0, until), rng.choice([1, 1, 1.6]), (226, 230, 240))


def _ridge(draw: Any, rng: random.Random, base: float, reach: float, colour: Rgb) -> None:
    """Draw a line of hills that ends at the lower edge."""
    phase, waves = rng.uniform(0, 6), rng.uniform(0.004, 0.009)
    points = [(x, base + reach * math.sin(phase + waves * x) + reach / 4 * math.sin(x / 31)) for x in _columns(12)]
    draw.polygon([(0, HEIGHT), *points, (WIDTH, HEIGHT)], fill=colour)


def _columns(step: int) -> range:
    return range(0, WIDTH + step, step)


def _sea(draw: Any, rng: random.Random, horizon: int, near: Rgb, far: Rgb) -> None:
    """Draw water below the horizon, with glints that grow towards the shore."""
    for y in range(horizon, HEIGHT, 4):
        draw.rectangle([0, y, WIDTH, y + 4], fill=_mix(far, near, (y - horizon) / (HEIGHT - horizon)))
    for _ in range(260):
        depth = rng.random() ** 1.6
        x, y = rng.randint(-40, WIDTH), horizon + depth * (HEIGHT - horizon)
        draw.line([x, y, x + 10 + 50 * depth, y], fill=_mix(_mix(far, near, depth), (255, 244, 220), 0.28), width=2)


def _house(draw: Any, rng: random.Random, box: tuple[int, int, int, int], wall: Rgb, lit: float) -> None:
    """Draw a house with a roof and windows, a part of which is lit."""
    left, top, right, bottom = box
    draw.rectangle(box, fill=wall)
    middle, overhang = (left + right) / 2, 8
    roof = _mix(wall, (20, 20, 30), 0.5)
    draw.polygon([(left - overhang, top), (middle, top - (right - left) * 0.42), (right + overhang, top)], fill=roof)
    for y in range(top + 22, bottom - 30, 58):
        for x in range(left + 16, right - 26, 44):
            colour = (255, 212, 128) if rng.random() < lit else _mix(wall, (14, 18, 30), 0.6)
            draw.rectangle([x, y, x + 22, y + 32], fill=colour)


def _boat(draw: Any, x: float, y: float, size: float, hull: Rgb, sail: Rgb | None) -> None:
    draw.polygon(
        [(x, y), (x + size, y), (x + size * 0.8, y + size * 0.26), (x + size * 0.18, y + size * 0.26)], fill=hull
    )
    mast = x + size * 0.48
    draw.line([mast, y, mast, y - size * 0.9], fill=(60, 50, 44), width=3)
    if sail:
        draw.polygon([(mast + 4, y - size * 0.86), (mast + 4, y - 8), (x + size * 0.94, y - 8)], fill=sail)


def _tower(draw: Any, x: float, foot: float, tall: float) -> None:
    wide = tall * 0.13
    draw.polygon(
        [(x - wide, foot), (x + wide, foot), (x + wide * 0.6, foot - tall), (x - wide * 0.6, foot - tall)],
        fill=(238, 232, 220),
    )
    for band in (0.28, 0.62):
        y, half = foot - tall * band, wide * (1 - 0.4 * band)
        draw.rectangle([x - half, y - tall * 0.1, x + half, y], fill=(178, 60, 48))
    draw.rectangle([x - wide * 0.8, foot - tall - 8, x + wide * 0.8, foot - tall], fill=(40, 44, 56))
    draw.rectangle([x - wide * 0.45, foot - tall * 1.13, x + wide * 0.45, foot - tall - 8], fill=(255, 226, 140))
    draw.polygon(
        [(x - wide * 0.6, foot - tall * 1.13), (x + wide * 0.6, foot - tall * 1.13), (x, foot - tall * 1.22)],
        fill=(40, 44, 56),
    )


# ---- places ----


def _lighthouse(draw: Any, rng: random.Random) -> None:
    """The tower on its rock at dusk, with its beam."""
    _stars(draw, rng, 90, 330)
    x, foot, tall = rng.randint(260, 820), rng.randint(500, 540), rng.randint(250, 320)
    side = -1 if x > WIDTH / 2 else 1
    for spread in (130, 90, 50, 22):
        edge = x + side * 1_400
        y, lamp = foot - tall - 60, foot - tall * 1.06
        draw.polygon(
            [(x, lamp), (edge, y - spread), (edge, y + spread)], fill=_mix((44, 62, 96), (255, 232, 170), 22 / spread)
        )
    _sea(draw, rng, 500, (20, 34, 56), (72, 92, 124))
    rock = [(x - 210, 600), (x - 120, foot + 4), (x + 130, foot), (x + 240, 610)]
    draw.polygon([(x - 270, 660), *rock, (x + 300, 660)], fill=(34, 36, 44))
    _tower(draw, x, foot + 6, tall)


def _harbour(draw: Any, rng: random.Random) -> None:
    """Houses along the quay in the morning, and boats in front."""
    _disc(draw, rng.randint(200, 880), rng.randint(110, 190), 46, (255, 236, 190))
    _ridge(draw, rng, 330, 46, (146, 166, 178))
    walls = [(196, 108, 84), (222, 184, 120), (120, 148, 158), (232, 220, 198), (150, 96, 92), (98, 124, 112)]
    x = -20
    while x < WIDTH:
        width = rng.randint(96, 156)
        _house(draw, rng, (x, 430 - rng.randint(40, 150), x + width, 452), rng.choice(walls), 0.12)
        x += width + 4
    draw.rectangle([0, 450, WIDTH, 482], fill=(92, 84, 80))
    _sea(draw, rng, 480, (38, 78, 98), (108, 148, 162))
    for _ in range(rng.randint(3, 5)):
        hull, sail = rng.choice([(52, 60, 84), (150, 44, 40), (36, 84, 76)]), rng.choice([None, (246, 238, 222)])
        _boat(draw, rng.randint(40, 900), rng.randint(520, 640), rng.randint(90, 170), hull, sail)


def _forest(draw: Any, rng: random.Random) -> None:
    """Firs in rows, each row darker, with fog between."""
    for row in range(5):
        base, shade = 360 + row * 90, row / 4
        colour = _mix((150, 178, 164), (18, 44, 38), shade)
        x: float = rng.randint(-60, 0)
        while x < WIDTH + 60:
            tall, wide = rng.randint(150, 260) * (0.7 + shade), rng.randint(36, 58) * (0.7 + shade)
            for part in range(4):
                top, half = base - tall + part * tall * 0.2, wide * (0.4 + part * 0.2)
                draw.polygon([(x, top), (x - half, top + tall * 0.36), (x + half, top + tall * 0.36)], fill=colour)
            draw.rectangle([x - 5, base - 30, x + 5, base + 40], fill=_mix(colour, (30, 22, 16), 0.5))
            x += rng.randint(46, 100) * (0.7 + shade)
        draw.rectangle([0, base, WIDTH, HEIGHT], fill=_mix(colour, (196, 206, 190), 0.25 * (1 - shade)))


def _street(draw: Any, rng: random.Random) -> None:
    """A street by night: houses on both sides, lamps that become smaller."""
    _stars(draw, rng, 40, 200)
    vanish, horizon = rng.randint(470, 610), 400
    draw.polygon(
        [(vanish - 14, horizon), (vanish + 14, horizon), (WIDTH - 160, HEIGHT), (160, HEIGHT)], fill=(52, 50, 60)
    )
    for side in (-1, 1):
        for step in range(6, -1, -1):
            near = 1.55 ** (6 - step)
            inner, outer = vanish + side * 24 * near, vanish + side * 24 * near * 1.6
            left, right = sorted((round(inner), round(outer)))
            top = round(horizon - 36 * near * rng.uniform(0.8, 1.3))
            wall = _mix((34, 36, 52), (66, 58, 70), rng.random())
            _house(draw, rng, (left, top, right, round(horizon + 14 * near)), wall, 0.34)
    for step in range(5, -1, -1):
        near = 1.6 ** (5 - step)
        x, y = vanish + 15 * near, horizon + 9 * near
        _disc(draw, x, y - 30 * near, 7 + 3 * near, (120, 92, 62))
        draw.line([x, y, x, y - 30 * near], fill=(20, 20, 26), width=max(2, round(near)))
        _disc(draw, x, y - 30 * near, 2 + near, (255, 206, 120))


def _night(draw: Any, rng: random.Random) -> None:
    """The town across the water, with its lights in it."""
    _stars(draw, rng, 200, 380)
    _disc(draw, rng.randint(120, 960), rng.randint(80, 180), 34, (238, 232, 210))
    _ridge(draw, rng, 400, 40, (22, 28, 46))
    _sea(draw, rng, 470, (10, 16, 32), (28, 38, 62))
    for _ in range(70):
        x, y = rng.randint(0, WIDTH), rng.randint(426, 468)
        colour = rng.choice([(255, 214, 130), (255, 190, 100), (250, 240, 210)])
        _disc(draw, x, y, rng.choice([2, 3, 4]), colour)
        draw.line([x, 476, x, 476 + rng.randint(20, 110)], fill=_mix((20, 28, 48), colour, 0.4), width=3)


def _shore(draw: Any, rng: random.Random) -> None:
    """Low water: sand in bands, pools, and the dunes behind."""
    _sea(draw, rng, 300, (108, 152, 160), (160, 190, 196))
    for row in range(7):
        y, colour = 380 + row * 52, _mix((222, 204, 160), (168, 140, 98), row / 6)
        points = [(x, y + 12 * math.sin(x / rng.uniform(88, 92) + row)) for x in _columns(20)]
        draw.polygon([(0, HEIGHT), *points, (WIDTH, HEIGHT)], fill=colour)
    for _ in range(16):
        x, y = rng.randint(0, WIDTH), rng.randint(430, 690)
        wide = (y - 380) * rng.uniform(0.3, 0.9)
        draw.ellipse([x, y, x + wide, y + wide * 0.22], fill=(150, 182, 190))
        _disc(draw, x - wide / 2, y + 10, rng.randint(5, 16), (88, 84, 80))


def _workshop(draw: Any, rng: random.Random) -> None:
    """A room with a window: shelves, a bench and a lamp."""
    window = rng.randint(120, 620)
    draw.rectangle([window, 90, window + 300, 360], fill=(176, 204, 214))
    draw.rectangle([window + 144, 90, window + 156, 360], fill=(84, 64, 48))
    draw.rectangle([window, 218, window + 300, 230], fill=(84, 64, 48))
    for y in (150, 250, 350):
        for left, right in ((20, window - 40), (window + 340, WIDTH - 20)):
            draw.rectangle([left, y, right, y + 10], fill=(96, 70, 50))
            x = left + 6
            while x < right - 30:
                wide, tall = rng.randint(14, 34), rng.randint(26, 74)
                colour = rng.choice([(170, 84, 60), (206, 168, 106), (84, 112, 118), (228, 214, 190), (60, 66, 78)])
                draw.rectangle([x, y - tall, x + wide, y], fill=colour)
                x += wide + rng.randint(3, 16)
    draw.polygon([(0, 540), (WIDTH, 500), (WIDTH, HEIGHT), (0, HEIGHT)], fill=(104, 72, 46))
    draw.polygon([(0, 540), (WIDTH, 500), (WIDTH, 524), (0, 566)], fill=(142, 102, 66))
    wheel = rng.randint(220, 820)
    for radius, colour in ((118, (40, 40, 44)), (98, (150, 116, 80)), (22, (40, 40, 44))):
        _disc(draw, wheel, 470, radius, colour)
    for spoke in range(8):
        angle = spoke * math.pi / 4 + 0.2
        draw.line([wheel, 470, wheel + 100 * math.cos(angle), 470 + 100 * math.sin(angle)], fill=(40, 40, 44), width=8)


def _library(draw: Any, rng: random.Random) -> None:
    """Shelves to the ceiling, a table and a green lamp."""
    for y in range(96, 560, 92):
        draw.rectangle([0, y, WIDTH, y + 12], fill=(74, 48, 32))
        x = 0
        while x < WIDTH:
            wide, tall = rng.randint(12, 34), rng.randint(52, 78)
            colours = [(134, 44, 40), (40, 70, 96), (56, 92, 70), (196, 160, 96), (98, 64, 88), (214, 200, 172)]
            draw.rectangle([x, y - tall, x + wide, y], fill=rng.choice(colours))
            x += wide + (rng.randint(10, 40) if rng.random() < 0.08 else 2)
    draw.rectangle([0, 590, WIDTH, HEIGHT], fill=(58, 38, 26))
    lamp = rng.randint(240, 820)
    draw.polygon([(lamp - 210, 590), (lamp - 70, 500), (lamp + 70, 500), (lamp + 210, 590)], fill=(214, 178, 110))
    draw.polygon([(lamp - 84, 506), (lamp - 46, 452), (lamp + 46, 452), (lamp + 84, 506)], fill=(40, 120, 84))
    draw.line([lamp, 506, lamp, 640], fill=(196, 160, 84), width=10)
    draw.rectangle([lamp - 50, 634, lamp + 50, 648], fill=(196, 160, 84))


def _train(draw: Any, rng: random.Random) -> None:
    """The night train along the shore, with lit windows."""
    _stars(draw, rng, 120, 300)
    _ridge(draw, rng, 360, 50, (34, 44, 66))
    _sea(draw, rng, 410, (18, 26, 46), (44, 58, 86))
    draw.polygon([(0, 560), (WIDTH, 520), (WIDTH, HEIGHT), (0, HEIGHT)], fill=(26, 30, 34))
    for car in range(5):
        left = car * 224 - rng.randint(0, 6)
        top = 446 - car * 8
        draw.rounded_rectangle([left, top, left + 214, top + 108], 14, fill=(36, 62, 74))
        for seat in range(6):
            lit = (255, 218, 140) if rng.random() < 0.7 else (24, 34, 44)
            draw.rectangle([left + 14 + seat * 33, top + 22, left + 38 + seat * 33, top + 58], fill=lit)
        draw.rectangle([left, top + 76, left + 214, top + 84], fill=(206, 150, 70))


def _winter(draw: Any, rng: random.Random) -> None:
    """Ice on the inner harbour below a pale sky."""
    _ridge(draw, rng, 320, 50, (176, 192, 208))
    x = -10
    while x < WIDTH:
        width = rng.randint(90, 150)
        _house(
            draw,
            rng,
            (x, 400 - rng.randint(10, 80), x + width, 416),
            rng.choice([(150, 110, 104), (132, 144, 152)]),
            0.3,
        )
        x += width + rng.randint(0, 30)
    for y in range(414, HEIGHT, 4):
        draw.rectangle([0, y, WIDTH, y + 4], fill=_mix((188, 208, 220), (96, 132, 158), (y - 414) / 306))
    for _ in range(46):
        depth = rng.random()
        x, down, wide = rng.randint(-60, WIDTH), 430 + depth * 270, 40 + depth * 150
        corners = [(x + wide * rng.uniform(0.3, 0.55) * math.cos(a), down + wide * 0.2 * math.sin(a)) for a in range(6)]
        draw.polygon(corners, fill=_mix((240, 246, 250), (206, 222, 232), depth))
    for _ in range(220):
        _disc(draw, rng.randint(0, WIDTH), rng.randint(0, HEIGHT), rng.choice([1.4, 2, 3]), (250, 252, 255))


SCENES: dict[str, tuple[Rgb, Rgb, Paint]] = {
    "lighthouse": ((22, 32, 62), (150, 110, 110), _lighthouse),
    "harbour": ((150, 190, 214), (250, 224, 186), _harbour),
    "forest": ((206, 220, 206), (120, 150, 130), _forest),
    "street": ((16, 18, 38), (58, 48, 66), _street),
    "night": ((10, 14, 34), (52, 58, 92), _night),
    "shore": ((182, 208, 222), (236, 222, 192), _shore),
    "workshop": ((196, 166, 128), (150, 112, 78), _workshop),
    "library": ((92, 62, 42), (60, 40, 28), _library),
    "train": ((14, 18, 42), (76, 66, 92), _train),
    "winter": ((206, 220, 234), (240, 236, 228), _winter),
}
