"""`squinney serve`, from its start to its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.serving import Serving

from squinney.mongo.embedded import process


def fetch(url: str) -> str:
    """Return the body of a GET response."""
    with urllib.request.urlopen(url, timeout=120) as response:
        return str(response.read().decode())


def products(serving: Serving) -> list[str]:
    """Return the lines of the shop's first page that link to products."""
    found = [line for line in fetch(f"{serving.url}/shop").splitlines() if "/shop/products/" in line]
    assert found
    return found[:4]


def test_it_serves_the_same_data_again_whatever_ended_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Serving(data) as serving:
        first = products(serving)
        assert serving.interrupt() == 130
    assert not process.is_running(data), "Ctrl-C leaves nothing behind but the data"

    serving = Serving(data)
    assert products(serving) == first
    serving.interrupt(signal.SIGKILL)
    assert process.is_running(data)

    with Serving(data) as serving:
        assert json.loads(fetch(f"{serving.url}/readyz"))["status"] == "ready", "the next one takes over"
        process.send(data, signal.SIGKILL)
        serving.wait_for(r"(had died and was restarted)")
        assert json.loads(fetch(f"{serving.url}/readyz"))["status"] == "ready"
        assert products(serving) == first
        serving.interrupt(signal.SIGTERM)
    assert "Traceback" not in serving.said
    assert not process.is_running(data)


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
        with httpx.Client(base_url=url, timeout=120) as client, ThreadPoolExecutor(1) as pool:
            pool.submit(client.get, "/compute")
            while client.get("/").status_code != 200:
                pass
            child.send_signal(sign)
            try:
                assert child.wait(120) == 130
            finally:
                child.kill()
        assert "closed" in child.stdout.read()


def children_of(pid: int) -> list[int]:
    """Return the processes that serve: those that the parent has forked, not what they started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes in /proc")
def test_several_processes_serve_one_port_and_one_that_dies_is_restarted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Serving(data, "--workers", "2", "--no-jobs", "--no-demo", "--metrics-port", "0") as serving:
        until = time.monotonic() + 120
        while len(before := children_of(serving.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        for number in (1, 0):
            os.kill(before[number], signal.SIGKILL)
            serving.wait_for(rf"(process {number + 1} of 2 has died and is restarted)")
        while set(children_of(serving.pid)) & set(before) and time.monotonic() < until:
            time.sleep(0.02)
        assert fetch(f"{serving.url}/healthz") == '{"status":"ok"}'
        while len(children_of(serving.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        serving.wait_for(r"(Squinney is at)")
        serving.send(signal.SIGTERM)
        assert serving.wait() == 0
    assert serving.said.count("Squinney is at") == 1
    assert serving.said.count("become the first admin") == 1
    assert "Traceback" not in serving.said
    assert not process.is_running(data), "the last process stops the embedded server"


def test_a_process_of_several_that_cannot_start_ends_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "squinney.service.commands.main", "serve", "--workers", "2", "--port", "0"]
    away = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    environment = {**os.environ, "MONGODB_URI": away, "SQUINNEY_SECRET": "the secret of the tests, long enough"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode == 7
    assert result.stderr.count("MongoDB cannot be reached") == 1
