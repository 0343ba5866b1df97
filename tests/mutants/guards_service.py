"""The service, parts of the library, and the commands."""

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
_carts_start = guards_of("squinney.commerce.system", "tests/systems/commerce/test_carts.py")
_carts_days = guards_of("squinney.commerce.jobs", "tests/systems/commerce/test_carts.py")
_main = guards_of("squinney.service.commands.main", "tests/cli/test_commands.py")
_lists = guards_of("squinney.commerce.surface.cli_lists", "tests/cli/test_commerce.py")
_admin = guards_of("squinney.commerce.surface.web_admin", "tests/api/test_shop_pages.py")
_products = guards_of("squinney.commerce.surface.web_admin_products", "tests/api/test_shop_pages.py")
_form = guards_of("squinney.commerce.surface.product_form", "tests/unit/test_product_form.py")
_viewer = guards_of("squinney.content.surface.viewer", "tests/api/test_content_pages.py")
_problems = guards_of("squinney.mongo.problems", "tests/api/test_malformed.py")
_doctor = guards_of("squinney.service.doctor", "tests/api/test_malformed.py")
_pages = guards_of("squinney.service.admin", "tests/api/test_people_pages.py")
_console = guards_of("squinney.http.commands", "tests/cli/test_commands.py")
_refused = guards_of("squinney.http.problems", "tests/api/test_refusals.py")
_secret = guards_of("squinney.service.secret", "tests/cli/test_service_commands.py")
_document = guards_of("squinney.service.openapi", "tests/api/test_failures.py")
_assembly = guards_of("squinney.assembly", "tests/examples/test_polls.py")
_prepare = guards_of("squinney", "tests/mongo/test_connect.py")

ADDING_A_SYSTEM = [
    _assembly(
        "a system that is added by the setting shares nothing with another",
        "    systems = (*SYSTEMS, *map(_added, packages))\n    require_no_conflict(systems)\n",
        "    systems = (*SYSTEMS, *map(_added, packages))\n",
        "test_a_system_that_cannot_be_added_is_refused_with_the_reason",
    ),
    _assembly(
        "a system that is added by the argument shares nothing with another",
        '    """\n    require_no_conflict(systems)\n    runner',
        '    """\n    runner',
        "test_two_systems_of_one_name_are_refused",
    ),
    _assembly(
        "no system has a collection of the core",
        '{("collection", one.name): "the core" for one in CORE_COLLECTIONS}',
        "{}",
        "test_a_system_that_cannot_be_added_is_refused_with_the_reason",
    ),
    _prepare(
        "prepare refuses a server without transactions",
        'check_server(db.client, "db")',
        "pass",
        "test_prepare_refuses_it_too_before_anything_is_made",
    ),
]

EXAMINING = [
    _problems(
        "a time-out of the server is not reported as a problem of the data",
        "isinstance(error, PyMongoError) and is_away(error)",
        "False",
        "test_a_timeout_is_raised_and_not_reported_as_a_problem",
    ),
    _doctor(
        "each system has its own time limit",
        ", pymongo.timeout(seconds):",
        ":",
        "test_a_slow_system_is_a_notice_and_the_others_are_still_checked",
    ),
]
PROCESSES = [
    _process(
        "a worker that hangs is killed",
        "        clock.start()\n",
        "",
        "test_a_hanging_worker_is_killed_and_replaced[stopped]",
    ),
    _process(
        "a worker that died while idle is not used",
        "            if process.is_ready:\n                return process\n",
        "            return process\n",
        "test_a_worker_that_dies_is_replaced",
    ),
    _process(
        "the number of waiting calls is limited",
        "if not may_go and self._waiting < self._most_waiting:",
        "if not may_go:",
        "test_running_and_waiting_calls_are_limited",
    ),
    _process(
        "a call that waited too long no longer counts as waiting",
        "            self._waiting -= 1\n",
        "",
        "test_a_call_that_waits_too_long_is_refused_and_not_counted",
    ),
    _process(
        "closing kills busy workers",
        "processes = [*self._idle, *self._busy]",
        "processes = [*self._idle]",
        "test_closing_kills_idle_and_busy_workers_and_refuses_calls",
    ),
    _process(
        "a worker that hangs is killed by its own timer if the parent is dead",
        "            signal.setitimer(signal.ITIMER_REAL, seconds)\n",
        "",
        "test_a_killed_parent_leaves_no_worker",
    ),
    _process(
        "workers have a lower priority than the service",
        "                os.nice(NICE)\n",
        "",
        "test_one_worker_runs_many_calls_with_a_lower_priority",
    ),
    _process(
        "output of a function does not mix with the output of the process",
        "                stdout=2,  # output of a function must not mix with the output of this process\n",
        "",
        "test_exceptions_and_output_of_a_function_do_no_harm",
    ),
]
FACETS = [
    _facet(
        "facets count a bounded number of products",
        "self.catalog.facets(by=by, most=most, up_to=self.up_to, **filters)",
        "self.catalog.facets(by=by, most=most, **filters)",
        "test_a_count_is_bounded_and_kept_for_a_while",
    ),
    _facet(
        "facet counts are cached",
        "            if self.clock() < valid_until:\n",
        "            if False:\n",
        "test_a_count_is_bounded_and_kept_for_a_while",
    ),
    _facet(
        "concurrent requests share one facet count",
        "            running = self._counting.get(key)\n",
        "            running = None\n",
        "test_visitors_at_once_cause_one_count",
    ),
    _facet(
        "products are shown even if their facets cannot be counted",
        "        except SquinneyError as error:\n",
        "        except ZeroDivisionError as error:\n",
        "test_a_failed_count_gives_what_was_kept_or_nothing_and_is_not_repeated_at_once",
    ),
]
LIBRARY = [
    _pinned(
        "times are timezone-aware with every client",
        "tz_aware=True, tzinfo=UTC, ",
        "",
        "test_hits_by_a_plain_client",
        "test_events_rollups_and_visits_by_a_plain_client",
        "test_the_ledger_by_a_plain_client",
    ),
    _pinned(
        "reads and writes use majority concern with every client",
        "            read_concern=MAJORITY_READ,\n            write_concern=MAJORITY_WRITE,\n",
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
        "a missing package gives one sentence",
        "    except ModuleNotFoundError as error:\n",
        "    except ZeroDivisionError as error:\n",
        "test_the_command_without_its_packages_says_what_to_install",
    ),
    _media(
        "a missing image library names the extra to install",
        "    except ModuleNotFoundError as error:\n",
        "    except ZeroDivisionError as error:\n",
        "test_a_missing_package_names_the_extra",
    ),
    _step(
        "a refusal names collection and document",
        "            if self.refused is not Conflict:\n",
        "            if True:\n",
        "tests/patterns/test_modes_agree.py::test_a_refusal_without_an_error_of_its_own_names_step_and_document",
    ),
]
COMMANDS = [
    _server(
        "a running server needs no free disk space",
        "        if process.is_running(self.folder):\n            if self._answers():",
        "        data_folders.check_room(self.folder)\n        if process.is_running(self.folder):\n            if self._answers():",
        "test_a_server_that_runs_is_used_on_a_disk_that_is_nearly_full",
    ),
    _session(
        "a session ends even if it is used every day",
        "LASTS_AT_MOST = timedelta(days=90)",
        "LASTS_AT_MOST = timedelta(days=9_000)",
        "test_a_session_that_is_used_every_day_still_ends",
    ),
    _erase(
        "erasing a person removes the name from revisions",
        '            (node_queries.VERSIONS_WRITTEN_BY, {"metadata.author": ERASED}),\n'
        '            (node_queries.SAVED_BY, {"author": ERASED}),\n',
        "",
        "test_no_name_of_a_person_stays_anywhere",
    ),
    _erase(
        "erasing a person removes the name from decisions",
        '            (queries.DECIDED_BY, {"decided_by": ""}),\n',
        "",
        "test_no_name_of_a_person_stays_anywhere",
    ),
    _viewer(
        "after one refusal a request does not wait again",
        "_refuse if is_busy else processes_of(request)",
        "processes_of(request)",
        "test_comments_that_cannot_be_rendered_are_stored_and_shown_as_typed",
    ),
    _document(
        "only one thread builds the OpenAPI document",
        "        with self._lock:\n",
        "        if True:\n",
        "test_the_openapi_document_is_built_once",
    ),
    _document(
        "the OpenAPI document is built in a thread",
        "def show_document(",
        "async def show_document(",
        "test_building_the_openapi_document_does_not_block_the_event_loop",
    ),
    _pages(
        "a job that an admin runs has no time limit",
        '@router.post("/jobs/{name}")\n@JOBS\n',
        '@router.post("/jobs/{name}")\n',
        "test_a_job_of_the_admin_has_no_time_limit",
    ),
    _console(
        "stored text cannot control the terminal",
        'CONTROL.sub(" ", text)',
        "text",
        "test_stored_text_cannot_control_the_terminal",
    ),
    _refused(
        "the path of a refused request is escaped in the log",
        '"%s %a: %s"',
        '"%s %s: %s"',
        "test_a_refused_path_cannot_control_the_terminal",
    ),
    _secret(
        "a stored secret has a minimum length",
        "    if len(secret) < SHORTEST:\n",
        "    if False:\n",
        "test_the_embedded_secret_is_made_once_and_private",
    ),
    _carts_start(
        "an invalid SQUINNEY_KEEP_CARTS_DAYS fails at startup",
        "    keep_seconds_for()  #",
        "    #",
        "test_an_invalid_time_to_keep_carts_fails_at_startup",
    ),
    _carts_days(
        "expired carts are kept for at least a week",
        " and 7 <= int(days) <= 36_500",
        "",
        "test_how_long_carts_are_kept_can_be_set",
    ),
    _main(
        "completion reads the words from the environment",
        'os.environ.get("COMP_WORDS", "").split()[1:] if "_SQUINNEY_COMPLETE" in os.environ else sys.argv[1:]',
        "sys.argv[1:]",
        "tests/unit/test_imports.py::test_commands_of_a_group_load_no_other",
    ),
]
_PRODUCTS, _ORDERS = "test_products_are_listed_and_shown", "test_orders_are_listed_shown_cancelled_and_settled"
_CATEGORIES, _ADDED = "test_categories_are_added_shown_and_removed", "test_a_product_is_added_and_changed_by_the_form"
SHOPKEEPING = [
    _lists(
        "--category can be combined only with --type", "if category is not None and filters:", "if False:", _PRODUCTS
    ),
    _lists(
        "the products of a category are filtered by type", "(category, type=type_, sort", "(category, sort", _PRODUCTS
    ),
    _lists("products are filtered by type", '**({"type": type_} if type_ else {})', "", _PRODUCTS),
    _lists("products are listed in the requested order", "find(sort=sort, **paged", "find(**paged", _PRODUCTS),
    _lists("products are filtered by genre", ', "genre": genre}', "}", _PRODUCTS),
    _lists("orders are filtered by customer", "if customer is None else", "if True else", _ORDERS),
    _lists("orders continue after the cursor", '"orders"), {"cursor": cursor, "limit"', '"orders"), {"limit"', _ORDERS),
    _lists("a new category has the given slug", ".add(name, slug, parent)", ".add(name, None, parent)", _CATEGORIES),
    _lists("a new category has the given parent", ".add(name, slug, parent)", ".add(name, slug)", _CATEGORIES),
    _lists(
        "--children selects what happens to the children of a removed category",
        "remove(slug, children=children)",
        "remove(slug)",
        _CATEGORIES,
    ),
    _admin(
        "after a form the user returns to a page, not to the form's target",
        "return page if path in FORMS_ON or path.startswith(FORMS_BELOW) else",
        "return page if path else",
        "test_an_editor_finds_products_and_returns_to_the_same_page",
    ),
    _admin(
        "the admin's search finds a product by its SKU",
        "first = [] if cursor else catalog.get_many([words])",
        "first: list[Product] = []",
        "test_an_editor_finds_products_and_returns_to_the_same_page",
    ),
    _products("a product form that is sent twice adds one product", ', key=Key(key, "web"))', ")", _ADDED),
    _products(
        "a product that another user changed is not overwritten",
        "expected_version=version)",
        'expected_version=product["version"])',
        "test_a_product_form_reports_that_another_user_changed_the_product",
    ),
    _form(
        "fields that the product form does not show keep their values",
        '        **{name: before[name] for name in ("asin", "shipping") if name in before},\n',
        "",
        f"tests/api/test_shop_pages.py::{_ADDED}",
    ),
    _form(
        "an unchanged line of the product form keeps its value",
        "before[name] if same else ",
        "",
        "test_an_unchanged_line_keeps_its_time",
    ),
    _form(
        "the lines of the product form have different names",
        "        if name in found:\n",
        "        if False:\n",
        "test_an_invalid_line_is_refused",
    ),
]

GUARDS = [*EXAMINING, *ADDING_A_SYSTEM, *PROCESSES, *FACETS, *LIBRARY, *COMMANDS, *SHOPKEEPING]
