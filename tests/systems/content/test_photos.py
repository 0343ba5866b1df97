"""Photos: upload, checks, replacement and leftovers."""

from __future__ import annotations

import hashlib
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from PIL import Image
from tests.systems.content.conftest import ADA, BEN
from tests.systems.content.pictures import jpeg, jpeg_from_a_camera, noise, png_header, zip_bomb

from squinney.content import (
    ANYBODY,
    BadMedia,
    EditConflict,
    Nodes,
    Photos,
    SlugTaken,
    UnknownNode,
    UploadLost,
    Viewer,
    leftovers,
)
from squinney.content.files import chunks, media, uploads
from squinney.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.transactions import Transactions

CHUNK = 2_000


@pytest.fixture
def photos(site: Db) -> Photos:
    return Photos(site, transactions=Transactions(site, timeout_seconds=20), chunk_bytes=CHUNK)


def whole(photos: Photos, node: Any, rendition: Any = "original") -> bytes:
    return b"".join(photos.open(node, rendition).read())


def stored(site: Db) -> tuple[int, int, int]:
    """Return the numbers of files, chunks and uploads."""
    names = ("content.assets.files", "content.assets.chunks", "content.uploads")
    files, chunks, records = (site[name].count_documents({}) for name in names)
    return files, chunks, records


def let_time_pass(site: Db) -> None:
    """Make all scheduled removals due."""
    long_ago = server_now(site) - timedelta(days=1)
    site["content.removals"].update_many({}, {"$set": {"due_at": long_ago}})
    site["content.uploads"].update_many({}, {"$set": {"seen": long_ago}})


def test_a_photo_comes_back_byte_for_byte(photos: Photos, site: Db) -> None:
    body = noise(120)
    digest = hashlib.sha256(body).hexdigest()
    node = photos.upload(io.BytesIO(body), None, "pic", author=ADA, title="Pic", length=len(body), sha256=digest)
    detail = node["metadata"]["detail"]
    assert (detail["content_type"], detail["length"], detail["sha256"]) == ("image/jpeg", len(body), digest)
    assert (detail["width"], detail["height"]) == (120, 120)
    assert whole(photos, node) == body
    asset = photos.open(node, "original")
    assert b"".join(asset.read(100, 5_321)) == body[100:5_321]
    assert b"".join(asset.read(len(body) - 3)) == body[-3:]
    assert len(body) > 3 * CHUNK
    assert site["content.assets.files"].count_documents({"metadata.locked": {"$exists": True}}) == 0
    assert stored(site)[2] == 0
    assert Image.open(io.BytesIO(whole(photos, node, "web"))).format == "JPEG"


def test_the_rendition_is_upright_and_without_the_gps_position(photos: Photos) -> None:
    node = photos.upload(io.BytesIO(jpeg_from_a_camera()), None, "pic", author=ADA)
    assert (node["metadata"]["detail"]["width"], node["metadata"]["detail"]["height"]) == (40, 80)
    web = Image.open(io.BytesIO(whole(photos, node, "web")))
    assert web.size == (40, 80)
    assert dict(web.getexif()) == {}
    assert b"Camera" not in whole(photos, node, "web")
    original = Image.open(io.BytesIO(whole(photos, node)))
    assert original.getexif().get_ifd(0x8825)
    photos._nodes.publish(node)
    assert photos.open(node, viewer=ANYBODY).content_type == "image/jpeg"
    with pytest.raises(Forbidden):
        photos.open(node, "original", viewer=ANYBODY)
    assert photos.open(node, "original", viewer=Viewer("ada")).length > 0


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_every_kind_of_image_gets_a_rendition(photos: Photos, kind: str) -> None:
    target = io.BytesIO()
    Image.new("RGBA" if kind == "PNG" else "P", (2_000, 30)).save(target, kind)
    node = photos.upload(io.BytesIO(target.getvalue()), None, "pic", author=ADA)
    web = node["metadata"]["detail"]["web"]
    assert (web["width"], web["height"]) == (1_600, 24)
    assert Image.open(io.BytesIO(whole(photos, node, "web"))).size == (1_600, 24)


REFUSED = {
    "html": b"<html><script>alert(1)</script>" * 50,
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "truncated": noise(100)[:4_000],
    "huge": png_header(50_000, 50_000),
    "large": png_header(9_000, 9_000),
    "bomb": zip_bomb(),
    "empty": b"",
    "mp4": b"\0\0\0\x18ftypmp42" + b"\0" * 100,
    "liar": b"\xff\xd8\xff<script>alert(1)</script>",
    "short": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_image_is_refused_with_a_reason(photos: Photos, site: Db, name: str) -> None:
    with pytest.raises(BadMedia) as caught:
        photos.upload(io.BytesIO(REFUSED[name]), None, "photo.jpg", author=ADA)
    assert caught.value.details["field"] == "file"
    assert len(caught.value.message) > 10
    assert stored(site) == (0, 0, 0)
    assert site["content.nodes"].count_documents({}) == 0


def test_limits_and_announcements_are_kept(photos: Photos, site: Db) -> None:
    body = noise(100)
    wrong: list[tuple[str, dict[str, Any]]] = [("length", {"length": 3}), ("sha256", {"sha256": "0" * 64})]
    for field, announced in wrong:
        with pytest.raises(Invalid) as caught:
            photos.upload(io.BytesIO(body), None, "pic", author=ADA, **announced)
        assert caught.value.details["field"] == field
    with patch.dict(media.MAX_BYTES, {"photo": 5_000}), pytest.raises(BadMedia, match="larger than 5000"):
        photos.upload(io.BytesIO(body), None, "pic", author=ADA)
    with pytest.raises(Invalid):
        photos.upload(io.BytesIO(body), None, "pic", author=ADA, type="song")  # type: ignore[arg-type]
    assert stored(site) == (0, 0, 0)


@pytest.mark.parametrize(
    ("colours", "space", "kept"), [("RGB", b"RGB ", True), ("L", b"GRAY", False), ("CMYK", b"CMYK", False)]
)
def test_a_colour_profile_is_kept_where_it_fits(photos: Photos, colours: str, space: bytes, kept: bool) -> None:
    original, profile = io.BytesIO(), b"\0" * 16 + space + b"\0" * 108
    Image.new(colours, (20, 20)).save(original, "JPEG", icc_profile=profile)
    original.seek(0)
    node = photos.upload(original, None, "pic", author=ADA)
    web = Image.open(io.BytesIO(b"".join(photos.open(node).read())))
    assert (web.mode, web.info.get("icc_profile")) == ("RGB", profile if kept else None)


def test_sixteen_bits_of_grey_stay_grey(photos: Photos) -> None:
    original = io.BytesIO()
    Image.new("I;16", (20, 20), 100 * 257).save(original, "PNG")
    original.seek(0)
    node = photos.upload(original, None, "pic", author=ADA)
    web = Image.open(io.BytesIO(b"".join(photos.open(node).read())))
    assert web.getpixel((10, 10)) == (100, 100, 100)


def test_a_video_is_kept_as_it_is(photos: Photos) -> None:
    body = b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 50
    node = photos.upload(io.BytesIO(body), None, "film", author=ADA, type="video")
    photos._nodes.publish(node)
    assert node["metadata"]["detail"]["content_type"] == "video/mp4"
    assert b"".join(photos.open(node, viewer=ANYBODY).read(5_000, 6_000)) == body[5_000:6_000]


def test_a_webm_video_loses_its_tags(photos: Photos) -> None:
    place = b"LOCATION +48.8577+002.2950/"
    tags = b"\x12\x54\xc3\x67" + bytes([0x80 | len(place)]) + place
    body = b"\x1a\x45\xdf\xa3\x84webm\x18\x53\x80\x67\x01" + b"\xff" * 7 + tags + b"\xec\x83end"
    node = photos.upload(io.BytesIO(body), None, "film", author=ADA, type="video")
    assert node["metadata"]["detail"]["content_type"] == "video/webm"
    stored_body = whole(photos, node)
    assert len(stored_body) == len(body)
    assert b"LOCATION" not in stored_body
    assert stored_body.endswith(b"end")


def test_a_replace_swaps_whole_photos(photos: Photos, site: Db) -> None:
    old, new = noise(100), noise(110)
    node = photos.upload(io.BytesIO(old), None, "pic", author=ADA, detail={"alt": "kept"})
    reader = photos.open(node, "original").read()
    begun = next(reader)
    replaced = photos.replace(io.BytesIO(new), node, node["metadata"]["nonce"], by=BEN)
    assert replaced["metadata"]["detail"]["alt"] == "kept"
    assert whole(photos, node) == new
    leftovers.give_up_uploads(site)
    assert begun + b"".join(reader) == old
    late = photos.open(node, "original").read()
    photos.replace(io.BytesIO(new), node)
    let_time_pass(site)
    assert leftovers.give_up_uploads(site)["files"] == 4
    with pytest.raises(NotFound, match="deleted while"):
        next(late)
    files, chunks, records = stored(site)
    assert (files, records) == (2, 0)
    assert chunks == sum(-(-file["length"] // CHUNK) for file in site["content.assets.files"].find())
    assert whole(photos, node) == new
    with pytest.raises(EditConflict):
        photos.replace(io.BytesIO(old), node, node["metadata"]["nonce"])
    restored = photos._nodes.restore(node, node["metadata"]["nonce"])
    assert restored["metadata"]["detail"]["sha256"] == hashlib.sha256(new).hexdigest()
    assert whole(photos, node) == new


def test_a_refused_replace_leaves_the_old_photo(photos: Photos, site: Db) -> None:
    old = jpeg()
    node = photos.upload(io.BytesIO(old), None, "pic", author=ADA)
    before = stored(site)
    for bad in (REFUSED["html"], REFUSED["truncated"]):
        with pytest.raises(BadMedia):
            photos.replace(io.BytesIO(bad), node)
    with pytest.raises(Invalid):
        photos.replace(io.BytesIO(old), photos._nodes.create(None, "page", "basic-page", "P", ADA))
    assert whole(photos, node) == old
    assert stored(site) == before


def test_two_uploads_to_one_slug_have_one_winner(photos: Photos, site: Db) -> None:
    bodies = [jpeg(colour) for colour in ("red", "green", "blue", "white")]

    def attempt(body: bytes) -> Any:
        try:
            return photos.upload(io.BytesIO(body), None, "pic", author=ADA)
        except Conflict as error:
            return error

    with patch.object(Photos, "_require_free"), ThreadPoolExecutor(4) as pool:
        results = list(pool.map(attempt, bodies))
    winners = [(body, result) for body, result in zip(bodies, results, strict=True) if isinstance(result, dict)]
    assert len(winners) == 1
    assert all(isinstance(result, SlugTaken) for result in results if not isinstance(result, dict))
    assert whole(photos, winners[0][1]) == winners[0][0]
    assert stored(site)[0] == 2
    assert stored(site)[2] == 0
    with pytest.raises(SlugTaken):
        photos.upload(io.BytesIO(bodies[0]), None, "pic", author=ADA)


class Dying:
    """A stream whose process dies after some pieces."""

    def __init__(self, body: bytes, pieces: int) -> None:
        self._file = io.BytesIO(body)
        self._left = pieces

    def read(self, size: int, /) -> bytes:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return self._file.read(min(size, CHUNK))


@pytest.mark.parametrize("replacing", [False, True], ids=["upload", "replace"])
def test_an_upload_killed_at_any_chunk_leaves_nothing_after_the_sweep(site: Db, replacing: bool) -> None:
    photos = Photos(site, chunk_bytes=CHUNK)
    old, new = jpeg(), noise(100)
    node = photos.upload(io.BytesIO(old), None, "pic", author=ADA) if replacing else None
    before = stored(site)

    def begin(stream: Dying) -> object:
        return photos.replace(stream, node) if node else photos.upload(stream, None, "pic", author=ADA)

    with patch.object(chunks, "CHUNKS_A_BATCH", 1):
        for pieces in range(len(new) // CHUNK + 2):
            with pytest.raises(KeyboardInterrupt):
                begin(Dying(new, pieces))
            if node:
                assert whole(photos, node) == old
            assert stored(site)[2] == before[2] + 1
            let_time_pass(site)
            leftovers.give_up_uploads(site)
            assert stored(site) == before
    assert site["content.removals"].count_documents({}) > 0  # the second notices, for chunks on their way
    let_time_pass(site)
    leftovers.give_up_uploads(site)
    assert site["content.removals"].count_documents({}) == 0


def test_an_upload_that_was_given_up_cannot_finish(photos: Photos, site: Db) -> None:
    class Silent(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            if not piece:
                let_time_pass(site)
                assert leftovers.give_up_uploads(site)["uploads given up"] == 1
            return piece

    film = b"\0\0\0\x18ftypmp42" + b"x" * 20_000
    with pytest.raises(UploadLost):
        photos.upload(Silent(film), None, "film", author=ADA, type="video")
    assert site["content.nodes"].count_documents({}) == 0
    let_time_pass(site)
    leftovers.give_up_uploads(site)
    assert stored(site) == (0, 0, 0)


@pytest.mark.parametrize("lost", ["original", "web"])
def test_chunks_rolled_back_by_a_failover_are_detected(photos: Photos, site: Db, lost: str) -> None:
    """The chunks were acknowledged by one member only."""
    finish = chunks.ChunkWriter.finish

    def rolled_back(writer: chunks.ChunkWriter) -> str:
        sha256 = finish(writer)
        if writer._file_id.endswith("-web") == (lost == "web"):
            site["content.assets.chunks"].delete_one({"files_id": writer._file_id})
        return sha256

    with (
        patch.object(chunks.ChunkWriter, "finish", rolled_back),
        patch.object(uploads, "SETTLED_WITHIN_SECONDS", 0.1),
        pytest.raises(UploadLost, match="missing"),
    ):
        photos.upload(io.BytesIO(noise(100)), None, "pic", author=ADA)
    assert stored(site) == (0, 0, 0)
    assert site["content.nodes"].count_documents({}) == 0


def test_a_chunk_being_sent_does_not_arrive_after_a_clean_up(photos: Photos, site: Db) -> None:
    insert, left = chunks.ChunkWriter._insert, threading.Event()

    def slow(writer: chunks.ChunkWriter, batch: list[Any]) -> None:
        assert left.wait(120)
        insert(writer, batch)

    class TooLong(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 20 * CHUNK:
                threading.Timer(0.2, left.set).start()
                raise ValueError("the line broke")
            return super().read(size)

    film = TooLong(b"\0\0\0\x18ftypmp42" + b"x" * 100_000)
    with (
        patch.object(chunks.ChunkWriter, "_insert", slow),
        patch.object(chunks, "CHUNKS_A_BATCH", 15),
        pytest.raises(ValueError, match="the line broke"),
    ):
        photos.upload(film, None, "film", author=ADA, type="video")
    assert stored(site) == (0, 0, 0)


def test_an_active_upload_is_not_given_up(photos: Photos, site: Db) -> None:
    class Watched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert leftovers.give_up_uploads(site)["uploads given up"] == 0
            return super().read(size)

    photos.upload(Watched(noise(100)), None, "pic", author=ADA)


def test_an_unknown_outcome_is_left_to_the_sweep(photos: Photos, site: Db) -> None:
    run = photos._transactions.run

    def lost_answer(*args: Any, **options: Any) -> Any:
        run(*args, **options)
        raise Unavailable("no answer", outcome_unknown=True)

    with patch.object(photos._transactions, "run", lost_answer), pytest.raises(Unavailable):
        photos.upload(io.BytesIO(jpeg()), None, "pic", author=ADA)
    let_time_pass(site)
    leftovers.give_up_uploads(site)
    node = Nodes(site).by_path("/pic")
    assert whole(photos, node) == jpeg()


def test_a_removed_photo_is_swept_with_its_files_and_comments(photos: Photos, site: Db) -> None:
    node = photos.upload(io.BytesIO(jpeg()), None, "pic", author=ADA)
    photos.remove(node)
    with pytest.raises(UnknownNode):
        photos.open(node)
    assert stored(site)[0] == 2
    let_time_pass(site)
    leftovers.delete_leftovers(site)
    assert stored(site) == (0, 0, 0)
    for name in ("content.revisions", "content.removals", "content.comments", "content.nodes"):
        assert site[name].count_documents({}) == 0


def test_assets_obey_access_and_time(photos: Photos) -> None:
    nodes: Nodes = photos._nodes
    node = photos.upload(io.BytesIO(jpeg()), None, "pic", author=ADA)
    with pytest.raises(UnknownNode):
        photos.open(node, viewer=ANYBODY)
    nodes.publish(node)
    photos.open(node, viewer=ANYBODY)
    nodes.set_access(node, {"read": ["user:zoe"], "edit": []})
    with pytest.raises(UnknownNode):
        photos.open(node, viewer=ANYBODY)
    photos.open(node, viewer=Viewer("zoe"))
    with pytest.raises(NotFound):
        photos.open(nodes.create(None, "page", "basic-page", "P", ADA))


def test_a_run_takes_a_bounded_part_of_what_is_due(site: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "AT_ONCE", 2)
    now = server_now(site)
    site["content.removals"].insert_many(
        [{"_id": f"r{number}", "kind": "file", "target_id": f"f{number}", "due_at": now} for number in range(5)]
    )
    left = []
    for _ in range(3):
        leftovers.delete_leftovers(site)
        left.append(site["content.removals"].count_documents({}))
    assert left == [3, 1, 0]
