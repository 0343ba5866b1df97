"""WebM videos lose their tags, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squinney.content import BadMedia
from squinney.content.files.uploads import blanker_for
from squinney.content.files.webm_locations import ATTACHMENTS, SEGMENT, TAGS, VOID, WebmBlanker

PLACE = b"+48.8577+002.2950/"
HEAD, INFO, CLUSTER = b"\x1a\x45\xdf\xa3", b"\x15\x49\xa9\x66", b"\x1f\x43\xb6\x75"
TAG, SIMPLE, NAME, TEXT, BLOCK = b"\x73\x73", b"\x67\xc8", b"\x45\xa3", b"\x44\x87", b"\xa3"


def element(kind: bytes, body: bytes, width: int = 8, *, endless: bool = False) -> bytes:
    value = (1 << 7 * width) - 1 if endless else len(body)
    return kind + ((1 << 7 * width) | value).to_bytes(width, "big") + body


def film(width: int, *, streamed: bool) -> bytes:
    """Return a video as a recorder writes it: with tags before the frames, and again after them."""
    place = element(SIMPLE, element(NAME, b"LOCATION") + element(TEXT, PLACE))
    tags = element(TAGS, element(TAG, place), width)
    pictures = element(CLUSTER, element(BLOCK, b"pictures" * 9), endless=streamed)
    attached = element(ATTACHMENTS, PLACE * 3, width)
    body = element(INFO, b"info") + tags + pictures + attached + pictures + tags
    return element(HEAD, b"webm") + element(SEGMENT, body, endless=streamed)


def through(body: bytes, sizes: list[int]) -> bytes:
    stream, at, done = WebmBlanker(), 0, b""
    for size in sizes:
        done += stream.feed(body[at : at + size])
        at += size
    return done + stream.feed(body[at:]) + stream.finish()


def elements(body: bytes) -> list[tuple[bytes, bytes]]:
    """Parse the elements independently of the tested code, with those in segments and in elements without a size."""
    found, at = [], 0
    while at < len(body):
        start = at
        at += 9 - body[at].bit_length()
        kind, width = body[start:at], 9 - body[at].bit_length()
        size = int.from_bytes(body[at : at + width], "big") - (1 << 7 * width)
        at += width
        if kind == SEGMENT or size == (1 << 7 * width) - 1:
            found.append((kind, b""))
            continue
        found.append((kind, body[at : at + size]))
        at += size
    return found


@given(st.lists(st.integers(1, 60)), st.integers(2, 8), st.booleans())
@settings(deadline=None, max_examples=80)
def test_tags_become_void_wherever_the_pieces_end(sizes: list[int], width: int, streamed: bool) -> None:
    before = film(width, streamed=streamed)
    after = through(before, sizes)
    assert len(after) == len(before)
    assert PLACE in before
    assert PLACE not in after
    assert b"LOCATION" not in after
    kinds = [VOID if kind in (TAGS, ATTACHMENTS) else kind for kind, _ in elements(before)]
    assert [kind for kind, _ in elements(after)] == kinds
    kept = [one for one in elements(before) if one[0] not in (TAGS, ATTACHMENTS)]
    assert [one for one in elements(after) if one[0] != VOID] == kept
    assert after.index(b"pictures") == before.index(b"pictures"), "nothing moves"


@given(st.binary(max_size=300), st.lists(st.integers(1, 50)))
@settings(deadline=None, max_examples=100)
def test_the_length_never_changes(body: bytes, sizes: list[int]) -> None:
    assert len(through(element(HEAD, b"webm") + body, sizes)) == len(body) + 16


def test_tags_without_an_end_are_refused() -> None:
    with pytest.raises(BadMedia):
        WebmBlanker().feed(element(HEAD, b"webm") + element(TAGS, PLACE, endless=True))


def test_uploads_of_both_kinds_of_video_lose_the_gps_position() -> None:
    assert isinstance(blanker_for("video/webm"), WebmBlanker)
    assert blanker_for("video/mp4")
    assert blanker_for("image/png") is None
