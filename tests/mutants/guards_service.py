"""The service, the library beside it, and the commands."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_process = guards_of("squinney.service.processes", "tests/unit/test_processes.py")
_facet = guards_of("squinney.commerce.catalog.facet_cache", "tests/unit/test_facet_cache.py")
_pinned = guards_of("squinney.mongo.pinned", "tests/mongo/test_pinned.py")
_hits = guards_of("squinney.analytics.hits.hits", "tests/mongo/test_pinned.py")
_server = guards_of("squinney.mongo.embedded.server", "tests/mongo/test_embedded.py")
_start = guards_of("squinney.service.commands.start", "tests/unit/test_imports.py")
_media = guards_of("squinney.content.files.media", "tests/unit/test_imports.py")
_session = guards_of("squinney.identity.sessions", "tests/systems/identity/test_sessions_and_keys.py")
_step = guards_of("squinney.transactions.steps", "tests/patterns/test_transactions.py")
_erase = guards_of("squinney.content.comments.people", "tests/systems/content/test_discussions.py")

PROCESSES = [
    _process(
        "what hangs is ended",
        "        clock.start()\n",
        "",
        "test_what_hangs_is_ended_with_one_error_and_another_takes_its_place[stopped]",
    ),
    _process(
        "one that died while it stood idle is not used",
        "            if process.is_ready:\n                return process\n",
        "            return process\n",
        "test_what_dies_is_one_error_and_another_takes_its_place",
    ),
    _process(
        "so many wait",
        "if not may_go and self._waiting < self._most_waiting:",
        "if not may_go:",
        "test_so_many_work_so_many_wait_and_the_rest_is_refused",
    ),
    _process(
        "who waited too long waits no more",
        "            self._waiting -= 1\n",
        "",
        "test_who_waits_too_long_is_refused_and_counts_no_more",
    ),
    _process(
        "closing ends the busy ones",
        "processes = [*self._idle, *self._busy]",
        "processes = [*self._idle]",
        "test_closing_ends_the_idle_and_the_busy_and_nothing_begins_after_it",
    ),
    _process(
        "one that hangs ends by its own clock where its starter is dead",
        "            signal.setitimer(signal.ITIMER_REAL, seconds)\n",
        "",
        "test_a_parent_that_is_killed_leaves_neither_idle_nor_hanging_ones",
    ),
    _process(
        "they give way to the service",
        "                os.nice(NICE)\n",
        "",
        "test_one_process_does_what_comes_and_gives_way_to_others",
    ),
    _process(
        "what is printed is no answer",
        "    os.dup2(2, 1)  # what a function prints is no answer\n",
        "",
        "test_what_a_function_raises_and_prints_harms_nothing",
    ),
]
FACETS = [
    _facet(
        "counts are bounded",
        "self._catalog.facets(by=by, most=most, up_to=self._up_to, **filters)",
        "self._catalog.facets(by=by, most=most, **filters)",
        "test_a_count_is_bounded_and_kept_for_a_while",
    ),
    _facet(
        "counts are kept",
        "            if self._clock() < good_until:\n",
        "            if False:\n",
        "test_a_count_is_bounded_and_kept_for_a_while",
    ),
    _facet(
        "one counts for all",
        "            others = self._counting.get(key)\n",
        "            others = None\n",
        "test_visitors_at_once_cause_one_count",
    ),
    _facet(
        "products do without a failed count",
        "        except SquinneyError as error:\n",
        "        except ZeroDivisionError as error:\n",
        "test_a_failed_count_gives_what_was_kept_or_nothing_and_is_not_repeated_at_once",
    ),
]
LIBRARY = [
    _pinned(
        "times are aware whatever the client",
        "tz_aware=True, tzinfo=UTC, ",
        "",
        "test_hits_by_a_plain_client",
        "test_events_rollups_and_visits_by_a_plain_client",
        "test_the_ledger_by_a_plain_client",
    ),
    _pinned(
        "reads and writes are of the majority whatever the client",
        "        read_concern=MAJORITY_READ,\n        write_concern=MAJORITY_WRITE,\n",
        "",
        "test_what_a_system_does_with_a_database_is_pinned",
    ),
    _hits(
        "hits pin their database",
        "        self._db = pinned(db)\n",
        "        self._db = db\n",
        "test_every_public_class_pins_its_database",
        "test_hits_by_a_plain_client",
    ),
    _start(
        "a missing package is one sentence",
        "    except ModuleNotFoundError as error:\n",
        "    except ZeroDivisionError as error:\n",
        "test_the_command_without_its_packages_says_what_to_install",
    ),
    _media(
        "photos name their extra",
        "    except ModuleNotFoundError as error:\n",
        "    except ZeroDivisionError as error:\n",
        "test_what_needs_a_package_that_is_missing_names_the_extra",
    ),
    _step(
        "a refusal names collection and document",
        "        if self.refused is Conflict:\n            state",
        "        if False:\n            state",
        "tests/patterns/test_modes_agree.py::test_a_refusal_without_an_error_of_its_own_names_step_and_document",
    ),
]
COMMANDS = [
    _server(
        "a server that runs needs no room",
        "        if process.is_running(self.folder):\n            if self._answers():",
        "        data_folders.check_room(self.folder)\n        if process.is_running(self.folder):\n            if self._answers():",
        "test_a_server_that_runs_is_used_on_a_disk_that_is_nearly_full",
    ),
    _session(
        "a session has an end however it is used",
        "LASTS_AT_MOST = timedelta(days=90)",
        "LASTS_AT_MOST = timedelta(days=9_000)",
        "test_a_session_that_is_used_every_day_ends_all_the_same",
    ),
    _erase(
        "names go out of revisions",
        '            (node_queries.VERSIONS_WRITTEN_BY, {"metadata.author": ERASED}),\n'
        '            (node_queries.SAVED_BY, {"author": ERASED}),\n',
        "",
        "test_no_name_of_a_person_stays_anywhere",
    ),
    _erase(
        "names go out of decisions",
        '            (queries.DECIDED_BY, {"decided_by": ""}),\n',
        "",
        "test_no_name_of_a_person_stays_anywhere",
    ),
]

GUARDS = [*PROCESSES, *FACETS, *LIBRARY, *COMMANDS]
