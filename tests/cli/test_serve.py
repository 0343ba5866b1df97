"""`squinney serve`, from its start to its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.serving import Serving

from squinney.mongo.embedded import process


def fetch(url: str) -> str:
    """Return the body of a GET response."""
    with urllib.request.urlopen(url, timeout=20) as response:
        return str(response.read().decode())


def test_it_serves_and_leaves_nothing_behind_but_the_data(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as serving:
        assert json.loads(fetch(f"{serving.url}/readyz"))["status"] == "ready"
        first = fetch(f"{serving.url}/shop")
        assert "/shop/products/" in first
        assert process.is_running(tmp_path / "data")
        assert serving.interrupt() == 130
    assert not process.is_running(tmp_path / "data")
    with Serving(tmp_path / "data") as serving:
        again = fetch(f"{serving.url}/shop")
    assert [line for line in first.splitlines() if "/products/" in line][:4] == [
        line for line in again.splitlines() if "/products/" in line
    ][:4]


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_stops_its_mongod(tmp_path: Path, sign: signal.Signals) -> None:
    with Serving(tmp_path / "data", "--no-demo") as serving:
        serving.interrupt(sign)
    assert "Traceback" not in serving.said
    assert not process.is_running(tmp_path / "data")


def test_a_mongod_that_dies_is_started_again(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--no-demo") as serving:
        process.send(tmp_path / "data", signal.SIGKILL)
        serving.wait_for(r"(had died and was restarted)")
        assert json.loads(fetch(f"{serving.url}/readyz"))["status"] == "ready"
    assert not process.is_running(tmp_path / "data")


def test_after_kill_9_the_next_one_takes_over(tmp_path: Path) -> None:
    serving = Serving(tmp_path / "data", "--no-demo")
    serving.interrupt(signal.SIGKILL)
    assert process.is_running(tmp_path / "data")
    with Serving(tmp_path / "data", "--no-demo") as serving:
        assert json.loads(fetch(f"{serving.url}/readyz"))["status"] == "ready"
    assert not process.is_running(tmp_path / "data")


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = subprocess.run(
            [
                sys.executable,
                "-m",
                "squinney.service.commands.main",
                "--data",
                str(tmp_path / "data"),
                "serve",
                "--port",
                port,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 2
    assert f"127.0.0.1:{port}" in result.stderr
    assert "PORT=" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def renderers() -> set[str]:
    """Return the ids of all rendering processes on this machine."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if "squinney.service.processes" in line}


def test_a_slow_page_is_rendered_in_a_worker_that_stops_with_the_service(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "large.md").write_text("---\ntitle: Large\n---\n" + "- an *item*\n" * 400)
    before = renderers()
    with Serving(tmp_path / "data", "--no-demo") as serving:
        squinney = [sys.executable, "-m", "squinney.service.commands.main", "--data", str(tmp_path / "data")]
        subprocess.run([*squinney, "content", "import", str(tmp_path / "pages")], check=True, timeout=60)
        assert not renderers() - before, "none is started before it is needed"
        assert "<em>item</em>" in fetch(f"{serving.url}/site/large")
        ours = renderers() - before
        assert ours
        serving.interrupt(signal.SIGTERM)
    assert not renderers() & ours


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_an_endless_computation_does_not_keep_the_process_alive(sign: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.cli.endless"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}) as child:
        assert child.stdout
        url = f"http://127.0.0.1:{child.stdout.readline().strip()}"
        with httpx.Client(base_url=url, timeout=30) as client, ThreadPoolExecutor(1) as pool:
            pool.submit(client.get, "/compute")
            while client.get("/").status_code != 200:
                pass
            child.send_signal(sign)
            try:
                assert child.wait(timeout=60) == 130
            finally:
                child.kill()
        assert "closed" in child.stdout.read()
