"""Wagtail and Isso, measured in the same run, each in its own virtual environment.

The environments are installed from the package index at the first run, in the user's cache. If that fails, the page
reports it. Both peers are measured inside their own process, without a network in between, as our classes are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path
from typing import Any

from bench import report
from bench.postgres import private_postgres

HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "squinney-bench"

WAGTAIL = """
import json, os, sys, time
from django.conf import settings
settings.configure(
    SECRET_KEY="x", DEBUG=False, USE_TZ=True, ALLOWED_HOSTS=["*"], STATIC_URL="/static/",
    WAGTAIL_SITE_NAME="b", WAGTAILADMIN_BASE_URL="http://x",
    DEFAULT_AUTO_FIELD="django.db.models.AutoField", ROOT_URLCONF="wagtail.urls",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres",
                           "HOST": sys.argv[1]}},
    INSTALLED_APPS=[
        "wagtail.users", "wagtail.images", "wagtail.documents", "wagtail.search", "wagtail.admin", "wagtail",
        "wagtail.sites", "taggit", "modelcluster", "django.contrib.auth", "django.contrib.contenttypes",
        "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles",
    ],
)
import django
django.setup()
from django.core.management import call_command
from django.test import RequestFactory
call_command("migrate", verbosity=0)
from wagtail.models import Page, Site
root = Page.objects.filter(depth=1).first()
at = root
for slug in ("top", "a", "b", "c"):
    at = at.add_child(instance=Page(title=slug, slug=slug))
Site.objects.all().delete()
site = Site.objects.create(hostname="testserver", root_page=Page.objects.get(slug="top"), is_default_site=True)
def find():
    request = RequestFactory().get("/a/b/c/")
    return site.root_page.specific.route(request, ["a", "b", "c"])
find()
times = []
until = time.perf_counter() + float(sys.argv[2])
while (began := time.perf_counter()) < until:
    find()
    times.append(time.perf_counter() - began)
times.sort()
import wagtail
print(json.dumps({"version": wagtail.__version__, "rate": len(times) / sum(times), "p50": times[len(times) // 2] * 1000,
                  "p99": times[int(len(times) * .99)] * 1000}))
"""

ISSO = """
import json, sys, time
from importlib.metadata import version
from pathlib import Path
from werkzeug.test import Client
from isso import config, make_app
folder = Path(sys.argv[1])
(folder / "isso.cfg").write_text(
    f"[general]\\ndbpath = {folder}/comments.db\\nhost = http://localhost/\\n[guard]\\nenabled = false\\n"
    "[moderation]\\nenabled = false\\n")
made = make_app(config.load(config.default_file(), str(folder / "isso.cfg")), threading=True)
client = Client(made)
headers = {"Origin": "http://localhost", "Referer": "http://localhost/x"}
def post(n):
    body = {"text": "A comment of a usual length " * 5, "author": "a", "title": "t"}
    answer = client.post("/new?uri=%2Fx", json=body, headers=headers)
    assert answer.status_code in (201, 202), answer.data
def read():
    answer = client.get("/?uri=%2Fx&limit=50&sort=oldest", headers=headers)
    assert answer.status_code == 200, answer.data
def measure(work, seconds):
    times = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        work()
        times.append(time.perf_counter() - began)
    times.sort()
    p50, p99 = (times[int(len(times) * share)] * 1000 for share in (.5, .99))
    return {"rate": len(times) / sum(times), "p50": p50, "p99": p99}
for n in range(1000):
    post(n)
seconds = float(sys.argv[2])
result = {"read": measure(read, seconds), "post": measure(lambda: post(0), seconds)}
print(json.dumps({"version": version("isso"), **result}))
"""


def section(*, quick: bool = False) -> str:
    """Measure the peers and return their part of the page."""
    seconds = 1.0 if quick else 5.0
    rows = [*_wagtail(seconds), *_isso(seconds)]
    head = ["peer", "what", "per second", "p50 ms", "p99 ms"]
    return (
        "## Peers, in the same run\n\n"
        + report.table(head, rows)
        + "\n\nWagtail routes a path three levels down on PostgreSQL. Isso reads 50 of "
        "1,000 comments, and posts one, on SQLite, through its WSGI application. They do not do the same work as ours "
        "(Isso's posts are one commit without a replica; Wagtail's read renders nothing). The figures give "
        "an order of magnitude, not a ranking."
    )


def _wagtail(seconds: float) -> list[list[str]]:
    python = _environment("wagtail", ["wagtail", "psycopg[binary]"])
    if python is None:
        return [["Wagtail", "missing: cannot be installed here", "", "", ""]]
    with private_postgres() as socket:
        if socket is None:
            return [["Wagtail", "missing: no PostgreSQL that may run here", "", "", ""]]
        try:
            figures = _script(python, WAGTAIL, [str(socket), str(seconds)])
        except (subprocess.SubprocessError, OSError, RuntimeError, ValueError) as error:
            return [["Wagtail", f"missing: {str(error)[-200:]!r}", "", "", ""]]
    return [_row(f"Wagtail {figures['version']}", "a page by path", figures)]


def _isso(seconds: float) -> list[list[str]]:
    python = _environment("isso", ["isso"])
    if python is None:
        return [["Isso", "missing: cannot be installed here", "", "", ""]]
    with tempfile.TemporaryDirectory(prefix="sqb-") as folder:
        try:
            figures = _script(python, ISSO, [folder, str(seconds)])
        except (subprocess.SubprocessError, OSError, RuntimeError, ValueError) as error:
            return [["Isso", f"missing: {str(error)[-200:]!r}", "", "", ""]]
    name = f"Isso {figures['version']}"
    return [_row(name, "50 of 1,000 comments", figures["read"]), _row(name, "a post, one writer", figures["post"])]


def _row(name: str, what: str, figures: Any) -> list[str]:
    return [name, what, f"{figures['rate']:,.0f}", f"{figures['p50']:.2f}", f"{figures['p99']:.2f}"]


def _script(python: str, code: str, arguments: list[str]) -> Any:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def _environment(name: str, packages: list[str]) -> str | None:
    folder = HOME / name
    python = folder / "bin" / "python"
    marker = folder / "ready"
    if not marker.exists():
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], capture_output=True, timeout=900)
        if done.returncode:
            print(done.stderr.decode()[-500:], file=sys.stderr)
            return None
        marker.touch()
    return str(python)
