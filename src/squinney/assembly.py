"""The list of all systems, over which the service, the checks and the docs iterate: a new system is one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from squinney.ads.upgrading import require_reviews
from squinney.content import Author, Nodes, Photos
from squinney.content.photos.kept_photos import KeptPhotos
from squinney.core import CORE as CORE
from squinney.core import CORE_COLLECTIONS as CORE_COLLECTIONS  # callers use these as names of this module
from squinney.core import CORE_JOBS as CORE_JOBS
from squinney.core import CORE_QUERIES as CORE_QUERIES
from squinney.errors import Conflict, Invalid
from squinney.mongo import renaming
from squinney.mongo.ownership import former
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db
from squinney.patterns import sequences
from squinney.patterns.batches import Batches
from squinney.patterns.jobs import Job
from squinney.social.posts.photos import forget_lost_photos
from squinney.system import Assembled, System, module_at, system_in
from squinney.transactions import Transactions, Tries

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

ALL = "all"
DEMO_SECONDS = 60.0


def chosen_systems(names: Sequence[str] = ()) -> tuple[System, ...]:
    """Return the named systems; without a name all of ours.

    A name is that of one of ours (`commerce`), the package of one of your own, or `all` for all of ours.

    Raises: `Invalid` if a package cannot be imported, declares no system, or one that conflicts with another.
    """
    ours = {system.name: system for system in SYSTEMS}
    systems = [system for name in names or [ALL] for system in _named(name, ours)]
    # guard: a system that is added by the setting shares nothing with another
    require_no_conflict(systems)
    return tuple(systems)


def _named(name: str, ours: Mapping[str, System]) -> Sequence[System]:
    if name == ALL:
        return SYSTEMS
    known = ours.get(name.removeprefix("squinney."))
    return [known or _added(name, ours)]


def _added(package: str, ours: Iterable[str]) -> System:
    try:
        if all(part.isidentifier() for part in package.split(".")) and module_at(f"{package}.system"):
            return system_in(package)
    except ImportError as error:
        raise Invalid(f"the system {package} cannot be imported: {error}", field="systems") from error
    raise Invalid(
        f"there is no system {package}: Squinney has {', '.join(ours)}; "
        f"one of your own is a module {package}.system, found by PYTHONPATH",
        field="systems",
    )


def require_no_conflict(systems: Sequence[System]) -> None:
    """Refuse two systems with the same name, pages, jobs or collections: each would change what the other stores.

    Raises: `Invalid`.
    """
    # guard: no system has a collection of the core
    owners = {("collection", collection.name): "the core" for collection in CORE_COLLECTIONS}
    owners |= {("job", job.name): "the core" for job in CORE_JOBS}
    for system in systems:
        declared = [("name", system.name), ("path", system.path), *(("job", job.name) for job in system.jobs)]
        for kind, name in [*declared, *(("collection", collection.name) for collection in system.collections)]:
            if (kind, name) in owners:
                both = f"{owners[kind, name]} and {system.package} both have the {kind} {name}"
                raise Invalid(f"{both}: rename that of the system you add", field="systems")
            owners[kind, name] = system.package


def collections(systems: Sequence[System] = SYSTEMS) -> list[Collection]:
    """Return every declared collection, those of the core first."""
    return [*CORE_COLLECTIONS, *(collection for system in systems for collection in system.collections)]


def required_migrations(db: Db, systems: Sequence[System] = SYSTEMS) -> list[Batches]:
    """Return the migrations that must run before programs see all documents of an older version."""
    return [migration for system in systems for migration in system.migrations(db) if migration.is_required]


def run_required_migrations(db: Db, systems: Sequence[System]) -> None:
    """Upgrade the documents of an older version that programs would not see.

    Atomic: each batch.
    After a crash: run it again.
    """
    for migration in required_migrations(db, systems):
        migration.run()


def rename_former(db: Db, systems: Sequence[System] = SYSTEMS) -> dict[str, str]:
    """Rename the collections of an older version, which also made one that is now only made for those who use it.

    Ads of members that were never reviewed or paid wait for both from then on.

    Atomic: each collection and each campaign by itself.
    After a crash: run it again.
    Raises: `Conflict`, like `renaming.rename_former`.
    """
    declared = [*collections(systems), *sequences.COLLECTIONS]
    old = former(db, declared)
    # guard: an ad that an older version showed without a review is reviewed
    if old and any(collection.name == "ad_campaigns" for collection in old.declared):
        require_reviews(db)
    return renaming.rename_former(db, declared)


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


def assemble(db: Db, *, systems: Sequence[System] = SYSTEMS) -> Assembled:
    """Build the objects of every system.

    Raises: `Invalid` if two systems conflict.
    """
    # guard: a system that is added by the argument shares nothing with another
    require_no_conflict(systems)
    runner = Transactions(db)
    return Assembled(db, runner, {system.name: system.build(db, runner) for system in systems}, tuple(systems))


def load_demo(db: Db, systems: Sequence[System] = SYSTEMS) -> None:
    """Load the demo data of each system, once per database, even if several processes do it concurrently.

    Atomic: each operation of a system by itself.
    After a crash: the next call continues.
    Raises: `Busy` if other operations block it for a minute.
    """
    tries = Tries(DEMO_SECONDS, what="the demo data")
    for system in systems:
        while db["squinney.demo"].find_one({"_id": system.name}) is None:
            try:
                system.demo(db)
            except Conflict as error:  # another process loads it too: try again, and skip what that one has loaded
                tries.pause(error)
            else:
                db["squinney.demo"].update_one({"_id": system.name}, {"$set": {"loaded": True}}, upsert=True)


def system_named(name: str, systems: Sequence[System] = SYSTEMS) -> System | None:
    """Return the system of that name, or None."""
    return next((system for system in systems if system.name == name), None)
