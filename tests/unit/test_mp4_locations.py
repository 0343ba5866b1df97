"""MP4 videos lose their metadata, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squinney.content import BadMedia
from squinney.content.files.mp4_locations import MAX_INDEX_BYTES, Mp4Blanker

PLACE = b"+48.8577+002.2950/"


def box(kind: bytes, body: bytes, *, long: bool = False) -> bytes:
    if long:
        return b"\0\0\0\1" + kind + (16 + len(body)).to_bytes(8, "big") + body
    return (8 + len(body)).to_bytes(4, "big") + kind + body


def track(handler: bytes, *more: bytes) -> bytes:
    media = box(b"mdhd", b"x" * 20) + box(b"hdlr", bytes(8) + handler + bytes(12)) + box(b"minf", b"tables")
    return box(b"trak", box(b"tkhd", b"t" * 12) + box(b"mdia", media) + b"".join(more))


def film(*, long: bool = False) -> bytes:
    notes = box(b"udta", box(b"\xa9xyz", b"\0\x12\x15\xc7" + PLACE))
    index = [box(b"mvhd", b"m" * 16), track(b"vide", notes), track(b"soun"), track(b"meta", box(b"gpmd", PLACE)), notes]
    meta = box(b"meta", b"com.apple.quicktime.location.ISO6709" + PLACE)
    moov = box(b"moov", b"".join([*index, meta, box(b"uuid", PLACE)]), long=long)
    pictures = box(b"mdat", b"pictures" * 50, long=long)
    return box(b"ftyp", b"isomisom") + pictures + box(b"uuid", PLACE) + moov + box(b"free", b"end")


def through(body: bytes, sizes: list[int]) -> bytes:
    stream, at, done = Mp4Blanker(), 0, b""
    for size in sizes:
        done += stream.feed(body[at : at + size])
        at += size
    return done + stream.feed(body[at:]) + stream.finish()


@given(st.lists(st.integers(1, 200)), st.booleans())
@settings(deadline=None, max_examples=60)
def test_metadata_is_blanked_wherever_the_pieces_end(sizes: list[int], long: bool) -> None:
    before = film(long=long)
    after = through(before, sizes)
    assert len(after) == len(before)
    assert PLACE in before
    assert PLACE not in after
    assert b"location" not in after
    for kept in (b"pictures" * 50, b"mvhd" + b"m" * 16, b"vide", b"soun", b"tables", b"end"):
        assert after.index(kept) == before.index(kept), "nothing moves: the index says at which byte a picture is"


@given(st.binary(max_size=300), st.lists(st.integers(1, 50)))
@settings(deadline=None, max_examples=100)
def test_the_length_never_changes(body: bytes, sizes: list[int]) -> None:
    assert len(through(body, sizes)) == len(body)
    assert len(through(b"\0\0\0\0moov" + body, sizes)) == len(body) + 8


def test_an_index_that_goes_on_to_the_end_of_the_file_is_looked_through_too() -> None:
    assert PLACE not in through(b"\0\0\0\0moov" + box(b"udta", PLACE), [5, 9])


def test_an_index_too_large_to_be_held_is_refused() -> None:
    with pytest.raises(BadMedia):
        Mp4Blanker().feed((MAX_INDEX_BYTES + 1).to_bytes(4, "big") + b"moov")
