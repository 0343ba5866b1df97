"""The list of all systems, over which the service, the checks and the docs iterate: a new system is one line here."""

from __future__ import annotations

from collections.abc import Sequence

from squinney import transactions
from squinney.content import Author, Nodes, Photos
from squinney.content.files.kept_photos import KeptPhotos
from squinney.errors import Conflict, Invalid
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db
from squinney.patterns import follow, leases, migrations, queue, sequences
from squinney.patterns import jobs as job_records
from squinney.patterns.jobs import Job
from squinney.social.tasks.photos import forget_lost_photos
from squinney.system import Assembled, System, module_at
from squinney.transactions import Mode, Transactions, Tries


def system_in(package: str) -> System:
    """Return the system that a package declares: its `system.SYSTEM`.

    Raises: `Invalid`.
    """
    module = module_at(f"{package}.system")
    if module is None:
        raise Invalid(
            f"there is no module {package}.system: is the folder of {package} in PYTHONPATH?", field="systems"
        )
    declared = getattr(module, "SYSTEM", None)
    if not isinstance(declared, System):
        raise Invalid(f"{package}.system must declare SYSTEM, a squinney.system.System", field="systems")
    if declared.package != package:
        wrong = f"{package}.system.SYSTEM has the package {declared.package!r}; write System(__package__, ...)"
        raise Invalid(wrong, field="systems")
    return declared


SYSTEMS: tuple[System, ...] = tuple(
    system_in(package)
    for package in (
        "squinney.analytics",
        "squinney.ledger",
        "squinney.commerce",
        "squinney.content",
        "squinney.ads",
        "squinney.game",
        "squinney.social",
        "squinney.identity",
    )
)

DEMO_SECONDS = 60.0
DEMO = Collection("demo", unsharded="one small document per system")
CORE = (transactions, sequences, migrations, leases, queue, follow, job_records)
CORE_COLLECTIONS = [*(collection for pattern in CORE for collection in pattern.COLLECTIONS), DEMO]
CORE_QUERIES = [query for pattern in (transactions, leases, queue, follow, job_records) for query in pattern.QUERIES]
CORE_JOBS = [
    Job(
        "recover-transactions",
        every_seconds=5,
        run=lambda db: Transactions(db).recover(),
        what="finishes or undoes the transactions of crashed processes",
    )
]


def with_systems(packages: Sequence[str]) -> tuple[System, ...]:
    """Return our systems and those that further packages declare.

    Raises: `Invalid` if a package cannot be imported, declares no system, or one that conflicts with another.
    """
    systems = (*SYSTEMS, *map(_added, packages))
    require_no_conflict(systems)
    return systems


def _added(package: str) -> System:
    try:
        return system_in(package)
    except ImportError as error:
        raise Invalid(f"the system {package} cannot be imported: {error}", field="systems") from error


def require_no_conflict(systems: Sequence[System]) -> None:
    """Refuse two systems with the same name, pages, jobs or collections: each would change what the other stores.

    Raises: `Invalid`.
    """
    owners = {("collection", one.name): "the core" for one in CORE_COLLECTIONS}
    owners |= {("job", one.name): "the core" for one in CORE_JOBS}
    for system in systems:
        declared = [("name", system.name), ("path", system.path), *(("job", one.name) for one in system.jobs)]
        for kind, name in [*declared, *(("collection", one.name) for one in system.collections)]:
            if (kind, name) in owners:
                both = f"{owners[kind, name]} and {system.package} both have the {kind} {name}"
                raise Invalid(f"{both}: rename that of the system you add", field="systems")
            owners[kind, name] = system.package


def collections(systems: Sequence[System] = SYSTEMS) -> list[Collection]:
    """Return every declared collection, those of the core first."""
    return [*CORE_COLLECTIONS, *(collection for system in systems for collection in system.collections)]


def queries(systems: Sequence[System] = SYSTEMS) -> list[Query | Pipeline]:
    """Return every declared query, those of the core first."""
    return [*CORE_QUERIES, *(query for system in systems for query in system.queries)]


def jobs(systems: Sequence[System] = SYSTEMS) -> list[Job]:
    """Return every declared job: those of the core first, and last those that need two systems."""
    both = {"content", "social"} <= {system.name for system in systems}
    return [*CORE_JOBS, *(job for system in systems for job in system.jobs), *([FORGET_LOST_PHOTOS] if both else [])]


def kept_photos(nodes: Nodes, photos: Photos) -> KeptPhotos:
    """Return the content system's storage for the photos of the social network's posts."""
    keeper: Author = {"_id": "social", "name": "Social"}
    return KeptPhotos(nodes, photos, folder="photos-of-posts", title="A photo of a post", keeper=keeper)


FORGET_LOST_PHOTOS = Job(
    "forget-lost-photos",
    every_seconds=600,
    run=lambda db: forget_lost_photos(db, kept_photos(Nodes(db), Photos(db))),
    what="deletes photos whose posts no longer exist",
)


def assemble(db: Db, *, mode: Mode = "auto", systems: Sequence[System] = SYSTEMS) -> Assembled:
    """Build the objects of every system.

    Raises: `Invalid` if two systems conflict.
    """
    require_no_conflict(systems)
    runner = Transactions(db, mode)
    return Assembled(db, runner, {system.name: system.build(db, runner) for system in systems}, tuple(systems))


def load_demo(db: Db, systems: Sequence[System] = SYSTEMS) -> None:
    """Load the demo data of each system, once per database, even if several processes do it concurrently.

    Atomic: each operation of a system by itself.
    After a crash: the next call continues.
    Raises: `Busy` if other operations block it for a minute.
    """
    tries = Tries(DEMO_SECONDS, what="the demo data")
    for system in systems:
        while db["demo"].find_one({"_id": system.name}) is None:
            try:
                system.demo(db)
            except Conflict as error:  # another process loads it too: try again, and skip what that one has loaded
                tries.pause(error)
            else:
                db["demo"].update_one({"_id": system.name}, {"$set": {"loaded": True}}, upsert=True)


def system_named(name: str, systems: Sequence[System] = SYSTEMS) -> System | None:
    """Return the system of that name, or None."""
    return next((system for system in systems if system.name == name), None)
