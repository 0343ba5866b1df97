"""The photos of posts in the content system: only their authors, those whom the post allows, and admins see them."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.clock import utcnow
from squinney.content.nodes.documents import NODES
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.social.posts.photos import forget_lost_photos

JSON = {"Accept": "application/json"}


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(made, "PNG")
    return made.getvalue()


@pytest.fixture
def photo(systems: assembly.Assembled) -> str:
    """Return the id of Ann's photo, in a post for her circles, in which nobody is."""
    content = systems.services["content"]
    network = systems.services["social"]["network"]
    network.join("Ann", user="ann")
    found = assembly.kept_photos(content["nodes"], content["photos"]).keep(io.BytesIO(picture()), "ann", "Ann")
    network.post("ann", "photo", {"file": found, "text": "", "alt": "teal"}, ["*circles*"])
    return found


def signed_in(app: TestClient, systems: assembly.Assembled, person_id: str, role: str) -> TestClient:
    person = {"_id": person_id, "login": person_id, "name": person_id, "role": role, "created_at": utcnow()}
    systems.db["identity.people"].update_one({"_id": person_id}, {"$set": person}, upsert=True)
    token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
    client = TestClient(app.app, headers={"X-CSRF-Token": Visitor(SECRET, token).csrf}, follow_redirects=False)
    client.cookies.set("squinney", token)
    return client


def folder_path(systems: assembly.Assembled) -> str:
    (folder,) = systems.db[NODES].find({"metadata.parent_id": None})
    return f"/site/{folder['metadata']['slug']}"


def sees_nothing(client: TestClient, systems: assembly.Assembled, photo: str) -> None:
    """Check every page that could show or change the photo, and that it is still there, unpublished."""
    nonce = systems.db[NODES].find_one({"_id": photo})["metadata"]["nonce"]
    folder = folder_path(systems)
    assert photo not in client.get("/site").text
    assert folder not in client.get("/site").text
    gets = [folder, f"/site/-/asset/{photo}", f"/site/-/asset/{photo}?rendition=original", f"/site/-/edit/{photo}"]
    for path in [*gets, f"/site/-/history/{photo}", f"/site/-/feed/{photo}.rss"]:
        response = client.get(path, headers=JSON)
        assert response.status_code == 404, (path, response.text)
    for action, data in {
        "publish": {"when": "now"},
        "remove": {},
        "move": {"folder": "/", "slug": "mine"},
        "access": {"access": "everyone"},
        "restore": {"nonce": nonce},
        "edit": {"nonce": nonce, "session": "s", "title": "x"},
        "replace": {},
    }.items():
        response = client.post(f"/site/-/{action}/{photo}", data=data, headers=JSON)
        assert response.status_code in (404, 422), (action, response.status_code, response.text)
    stored = systems.db[NODES].find_one({"_id": photo})["metadata"]
    assert (stored["published"], stored["nonce"]) == (None, nonce)


@pytest.mark.parametrize("role", ["member", "editor"])
def test_members_and_editors_neither_see_nor_change_it(
    stranger: TestClient, systems: assembly.Assembled, photo: str, role: str
) -> None:
    sees_nothing(signed_in(stranger, systems, "eve", role), systems, photo)


def test_its_author_and_admins_see_it(stranger: TestClient, systems: assembly.Assembled, photo: str) -> None:
    for person, role in (("ann", "member"), ("root", "admin")):
        client = signed_in(stranger, systems, person, role)
        assert client.get(f"/site/-/asset/{photo}").content, person
    client = signed_in(stranger, systems, "root", "admin")
    assert client.get(folder_path(systems)).status_code == 200
    assert client.post(f"/site/-/remove/{photo}").status_code == 303
    assert systems.db[NODES].find_one({"_id": photo}) is None


@pytest.mark.parametrize("behalf", [{}, {"On-Behalf-Of": "ann"}, {"On-Behalf-Of": "eve"}])
def test_no_key_of_the_content_system_opens_it(
    stranger: TestClient, systems: assembly.Assembled, photo: str, behalf: dict[str, str]
) -> None:
    _, key = systems.services["identity"]["keys"].create("content", ["content:write"])
    stranger.headers.update({"Authorization": f"Bearer {key}", **behalf})
    node = systems.db[NODES].find_one({"_id": photo})
    folder = node["metadata"]["parent_id"]
    listed = stranger.get("/api/content/nodes/root/children").json()["items"]
    assert listed == []
    for kind in ("children", "recent", "unpublished"):
        assert photo not in stranger.get(f"/api/content/nodes/{folder}/{kind}").text
    path = f"{folder_path(systems).removeprefix('/site')}/{node['metadata']['slug']}"
    for url in (
        f"/api/content/assets/{photo}",
        f"/api/content/assets/{photo}?rendition=original",
        f"/api/content/nodes/{photo}",
        f"/api/content/nodes/{photo}/html",
        f"/api/content/nodes/{photo}/history",
        f"/api/content/feeds/{photo}.atom",
        f"/api/content/by-path?path={path}",
    ):
        assert stranger.get(url).status_code == 404, url
    for method, url, body in (
        ("POST", "publish", {}),
        ("POST", "unpublish", {}),
        ("POST", "tags", {"add": ["x"]}),
        ("POST", "move", {"parent_id": None, "slug": "mine"}),
        ("PUT", "access", {"access": {"read": ["everyone"], "edit": []}}),
        ("PATCH", "", {"nonce": node["metadata"]["nonce"], "title": "x"}),
        ("DELETE", "", None),
    ):
        response = stranger.request(method, f"/api/content/nodes/{photo}/{url}".rstrip("/"), json=body)
        assert response.status_code == 404, (method, url, response.text)
    assert stranger.put(f"/api/content/assets/{photo}", content=picture()).status_code == 404
    assert systems.db[NODES].find_one({"_id": photo}) == node


def test_a_photo_that_was_published_is_private_again(
    stranger: TestClient, systems: assembly.Assembled, photo: str
) -> None:
    systems.services["content"]["nodes"].publish(photo)
    systems.db[NODES].update_many({}, {"$set": {"metadata.published": utcnow()}})
    for client in (stranger, signed_in(stranger, systems, "eve", "editor")):
        assert client.get(f"/site/-/asset/{photo}", headers=JSON).status_code == 404
        assert client.get(folder_path(systems), headers=JSON).status_code == 404


def test_photos_of_an_older_version_are_marked_by_the_job(
    stranger: TestClient, systems: assembly.Assembled, photo: str
) -> None:
    unmarked = {"$unset": {"metadata.kept_for": ""}}
    content = systems.services["content"]
    systems.db[NODES].update_many({}, unmarked)
    store = assembly.kept_photos(content["nodes"], content["photos"])
    forget_lost_photos(systems.db, store)
    sees_nothing(signed_in(stranger, systems, "eve", "editor"), systems, photo)
    systems.db[NODES].update_one({"_id": photo}, unmarked)  # by a process of the older version
    forget_lost_photos(systems.db, store)
    sees_nothing(signed_in(stranger, systems, "eve", "editor"), systems, photo)


def test_photos_of_an_older_version_are_marked_when_one_is_added(
    stranger: TestClient, systems: assembly.Assembled, photo: str
) -> None:
    systems.db[NODES].update_many({}, {"$unset": {"metadata.kept_for": ""}})
    content = systems.services["content"]
    assembly.kept_photos(content["nodes"], content["photos"]).keep(io.BytesIO(picture()), "bob", "Bob")
    sees_nothing(signed_in(stranger, systems, "eve", "editor"), systems, photo)
