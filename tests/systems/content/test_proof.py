"""The checks of `squinney prove content` find what is broken."""

from __future__ import annotations

import io

from tests.systems.content.conftest import ADA
from tests.systems.content.pictures import noise

from squinney.content import Comments, Nodes, Photos
from squinney.content.proof_checks import promises
from squinney.mongo.schema import Db


def test_the_proof_sees_what_is_broken(site: Db) -> None:
    """Each promise is broken once, and the proof must report it."""
    nodes, comments, photos = Nodes(site), Comments(site), Photos(site, chunk_bytes=2_000)
    page = nodes.create(None, "page", "basic-page", "P", ADA)
    comments.post(page, ADA, "twice")
    comments.post(page, ADA, "twice")
    photo = photos.upload(io.BytesIO(noise(60)), None, "photo", author=ADA)
    assert [promise for promise, broken in promises(site, lambda: None).items() if broken] == [
        "no comment was posted twice"
    ]
    site["intents"].insert_many(
        [
            {"kind": "edit", "acknowledged": True, "nonce": "lost"},
            {"kind": "post", "acknowledged": True},
            {"kind": "upload", "acknowledged": True, "node_id": photo["_id"], "sha256": "another"},
        ]
    )
    site["halves"].insert_one({"node_id": photo["_id"]})
    site["content.nodes"].update_one({"_id": page["_id"]}, {"$inc": {"metadata.num_comments": 1}})
    site["content.assets.chunks"].insert_one({"files_id": "nobody's", "n": 0, "data": b"x"})
    broken = [promise for promise, found in promises(site, lambda: None).items() if found]
    assert broken == [
        "every accepted edit is in the history, and each version once",
        "no acknowledged comment is lost",
        "no comment was posted twice",
        "no reader got half a photo",
        "every photo is complete, and every acknowledged one was shown",
        "no file and no chunk is left over",
        "find_problems is empty",
    ]
