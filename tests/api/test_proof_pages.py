"""The pages of the proof on a server that is not the embedded one, and the limit of live connections."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from squinney.service.proving.pages import MAX_STREAMS_PER_ADDRESS


def test_on_another_mongodb_the_pages_name_the_command(stranger: TestClient) -> None:
    for path in ("/", "/prove"):
        page = stranger.get(path).text
        assert "squinney prove ledger" in page
        assert "Start the proof" not in page


def test_on_another_mongodb_no_proof_is_started(site: TestClient) -> None:
    for path in ("/prove", "/prove/kill"):
        assert site.post(path, follow_redirects=False).status_code == 303
    assert "this site starts no proofs" in site.get("/prove").text


def test_without_a_proof_the_live_connection_says_so_and_ends(stranger: TestClient) -> None:
    answer = stranger.get("/prove/events?view=home")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.count("data: ") == 2
    assert answer.text.endswith("event: over\ndata: {}\n\n")
    assert stranger.head("/prove/events").content == b""


def test_one_address_watches_only_a_few_times(stranger: TestClient) -> None:
    app: Any = stranger.app
    app.state.proof_streams["testclient"] = MAX_STREAMS_PER_ADDRESS
    refused = stranger.get("/prove/events")
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
