"""Formats of logs, and what is said of logs, roll-ups and keys."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_FORGETTING = "tests/systems/analytics/test_forgetting.py::"

_parse = guards_of("squinney.analytics.parsers", "tests/unit/test_log_formats.py")
_layout = guards_of("squinney.analytics.parsers.layouts", "tests/unit/test_log_formats.py")
_w3c = guards_of("squinney.analytics.parsers.w3c", "tests/unit/test_log_formats.py")
_field = guards_of("squinney.analytics.parsers.fields", "tests/unit/test_log_formats.py")
_line = guards_of("squinney.analytics.parsers.lines", "tests/unit/test_log_formats.py")
_import = guards_of("squinney.analytics.events.imports", "tests/systems/analytics/test_imports.py")
_store = guards_of("squinney.analytics.events.storing", "tests/systems/analytics/test_imports.py")
_advice = guards_of("squinney.analytics.shard_advice", "tests/systems/analytics/test_forgetting.py")
_rollup = guards_of("squinney.analytics.rollups.rollups", "tests/systems/analytics/test_forgetting.py")
_cli = guards_of("squinney.analytics.surface.cli", "tests/cli/test_analytics.py")

GUARDS = [
    _layout(
        "fields may stand behind those of a format",
        "re.escape(text[end:]) + TRAILING",
        "re.escape(text[end:])",
        "test_a_line_is_told_and_read",
    ),
    _layout(
        "no other line stands behind a line",
        r"""TRAILING = rf'(?: (?:"{_QUOTED}"|[^\s"\[\]]+))*\s*'""",
        r"""TRAILING = r".*" """,
        "test_two_lines_glued_together_are_nobodys",
    ),
    _layout(
        "a user's name holds no empty field",
        """        if "-" in found.get("user", "").split(" "):""",
        "        if False:",
        "test_a_cut_within_the_name_is_seen",
    ),
    _layout(
        "a virtual host may come first",
        '    "vhost_combined": Layout(f"%v {_COMBINED}", name="vhost_combined"),',
        "",
        "test_a_line_is_told_and_read",
    ),
    _parse("AWS's formats are told", '"elb": parse_elb, ', "", "test_a_line_is_told_and_read"),
    _line(
        "the site of a load balancer's line is in its request",
        '        event.setdefault("site", site_of(site))\n',
        "",
        "test_a_line_is_told_and_read",
    ),
    _w3c(
        "the fields of a W3C log may change",
        "            if line.startswith(FIELDS):\n",
        "            if line.startswith(FIELDS) and not self._fields:\n",
        "test_fields_may_change_within_a_log",
    ),
    _w3c(
        "the day of a W3C log may be in its header",
        '        return _event({"date": self._day, **found}, tabs)\n',
        '        return _event({"date": "", **found}, tabs)\n',
        "test_a_day_that_is_in_the_header_alone",
    ),
    _import(
        "a chunk knows the fields told before it",
        "        self._format = last_header(chunk)\n",
        "",
        "test_the_fields_of_a_log_may_change_between_chunks",
        "test_the_day_of_a_log_may_be_in_a_line_of_another_chunk",
    ),
    _w3c(
        "IIS writes a space as a plus",
        """unquote(ours[name]) if tabs else ours[name].replace("+", " ")""",
        "unquote(ours[name])",
        "test_iis",
    ),
    _field(
        "Traefik's and nginx's names are known",
        '"time": ("StartUTC", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "ts", "date"),',
        '"time": ("time", "timestamp"),',
        "test_json_needs_no_map",
    ),
    _parse(
        "what is in no format says what was tried",
        "    raise Malformed(_why_none(line))\n",
        '    raise Malformed("not the combined format")\n',
        "test_what_is_in_no_format_says_what_was_tried",
    ),
    _store(
        "events carry the site of their import",
        "        if options.site:\n",
        "        if False:\n",
        "test_events_carry_their_site",
    ),
    _advice(
        "times follow time, however a log is sorted",
        "        return True\n    long",
        "        pass\n    long",
        "test_a_log_that_begins_with_the_newest_says_nothing_for_time_as_a_key",
    ),
    _rollup(
        "events of one's own have an arrival",
        "                self._require_arrivals()\n",
        "                pass\n",
        "test_documents_without_an_arrival_are_refused",
    ),
    _import(
        "an interrupted import says so",
        "                self._finished(INTERRUPTED)\n",
        "                pass\n",
        _FORGETTING + "test_an_interrupted_import_says_so",
    ),
    _cli(
        "sessions have the option that is advised",
        "Sessions(db).rollups(time_zone, finest=cast(Finest, finest))",
        "Sessions(db).rollups(time_zone)",
        "test_sessions_in_a_zone_at_half_hours",
    ),
    _cli(
        "errors of --keep-days speak of it",
        "    if keep_days is not None and keep_days * 86_400 < LEAST_SECONDS:\n",
        "    if False:\n",
        "test_bad_input_is_one_sentence",
    ),
    _cli(
        "of several sites one must be named",
        "    if len(sites) > 1:\n",
        "    if False:\n",
        "test_the_only_site_need_not_be_named_and_of_several_one_must_be",
    ),
]
