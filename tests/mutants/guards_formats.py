"""Guards of log formats, and of messages about logs, roll-ups and shard keys."""

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
        "a line may have more fields than its format",
        "re.escape(text[end:]) + TRAILING",
        "re.escape(text[end:])",
        "test_a_line_is_detected_and_parsed",
    ),
    _layout(
        "two lines glued together are rejected",
        r"""TRAILING = rf'(?: (?:"{_QUOTED}"|[^\s"\[\]]+))*\s*'""",
        r"""TRAILING = r".*" """,
        "test_two_lines_glued_together_are_rejected",
    ),
    _layout(
        "a user name contains no empty field",
        """        if "-" in found.get("user", "").split(" "):""",
        "        if False:",
        "test_a_cut_within_the_user_name_is_rejected",
    ),
    _layout(
        "a line may begin with its virtual host",
        '    "vhost_combined": Layout(f"%v {_COMBINED}", name="vhost_combined"),',
        "",
        "test_a_line_is_detected_and_parsed",
    ),
    _parse("AWS's formats are detected", '"elb": parse_elb, ', "", "test_a_line_is_detected_and_parsed"),
    _line(
        "the site of a load balancer's line is taken from its request",
        '        event.setdefault("site", site_of(site))\n',
        "",
        "test_a_line_is_detected_and_parsed",
    ),
    _w3c(
        "the fields of a W3C log may change within the log",
        "            if line.startswith(FIELDS):\n",
        "            if line.startswith(FIELDS) and not self._fields:\n",
        "test_fields_may_change_within_a_log",
    ),
    _w3c(
        "the date of a W3C log may be only in its header",
        '        return _event({"date": self._day, **found}, tabs)\n',
        '        return _event({"date": "", **found}, tabs)\n',
        "test_a_date_that_is_only_in_the_header",
    ),
    _import(
        "a chunk uses the field names of an earlier chunk",
        "        self._format = last_header(chunk)\n",
        "",
        "test_the_fields_of_a_log_may_change_between_chunks",
        "test_the_date_of_a_log_may_be_in_an_earlier_chunk",
    ),
    _w3c(
        "IIS writes a space as a plus",
        """unquote(values[name]) if tabs else values[name].replace("+", " ")""",
        "unquote(values[name])",
        "test_iis",
    ),
    _field(
        "the field names of Traefik and nginx are known",
        '"time": ("StartUTC", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "ts", "date"),',
        '"time": ("time", "timestamp"),',
        "test_json_of_known_servers_needs_no_map",
    ),
    _parse(
        "a line in no known format is rejected with the formats tried",
        "        raise Malformed(_why_none(line))\n",
        '        raise Malformed("not the combined format")\n',
        "test_a_line_in_no_format_is_rejected_with_the_formats_tried",
    ),
    _store(
        "events carry the site of their import",
        "        if options.site:\n",
        "        if False:\n",
        "test_events_carry_their_site",
    ),
    _advice(
        "a time counts as monotonic in any order of the log",
        "        return True\n    long",
        "        pass\n    long",
        "test_time_is_a_poor_key_even_if_a_log_is_sorted_newest_first",
    ),
    _rollup(
        "documents without `arrived` are refused",
        "                self._require_arrivals()\n",
        "                pass\n",
        "test_documents_without_an_arrival_are_refused",
    ),
    _import(
        "an interrupted import is marked as interrupted",
        "                self._finished(INTERRUPTED)\n",
        "                pass\n",
        _FORGETTING + "test_an_interrupted_import_is_marked",
    ),
    _cli(
        "the sessions command passes on --finest",
        "Sessions(db).rollups(time_zone, finest=cast(Finest, finest))",
        "Sessions(db).rollups(time_zone)",
        "test_sessions_in_a_zone_with_an_offset_of_half_an_hour",
    ),
    _cli(
        "an error about --keep-days names that option",
        "    if keep_days is not None and not LEAST_SECONDS / 86_400 <= keep_days < MOST_DAYS:\n",
        "    if keep_days is not None and not keep_days < MOST_DAYS:\n",
        "test_bad_input_is_one_sentence",
    ),
    _cli(
        "with several sites, one must be named",
        "    if len(sites) > 1:\n",
        "    if False:\n",
        "test_site_is_optional_only_if_there_is_one",
    ),
]
