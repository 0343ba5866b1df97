"""Guards of imports: each line is stored once, even after a crash."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_import = guards_of("squinney.analytics.events.imports", "tests/systems/analytics/test_imports.py")
_content = guards_of("squinney.analytics.events.log_content", "tests/systems/analytics/test_imports.py")
_sources = guards_of("squinney.analytics.events.sources", "tests/systems/analytics/test_imports.py")
_store = guards_of("squinney.analytics.events.storing", "tests/systems/analytics/test_imports.py")
_RACES = "tests/systems/analytics/test_races.py"
_feed = guards_of("squinney.analytics.hits.feed", _RACES)
_forget = guards_of("squinney.analytics.forgetting", _RACES)
_retention = guards_of("squinney.analytics.events.retention", _RACES)
_GUARDS = "tests/systems/analytics/test_guards.py::"

GUARDS = [
    _import(
        "a checkpoint moves only if its offset is unchanged",
        '{"_id": self.source["_id"], "offset": chunk.offset, "state"',
        '{"_id": self.source["_id"], "state"',
        _GUARDS + "test_the_slower_of_two_imports_of_one_source_counts_nothing",
    ),
    _import(
        "events stored after the checkpoint are not stored again",
        'known = {sources.offset_in(event["_id"]) for event in stored}',
        "known: set[int] = set()",
        _GUARDS + "test_events_stored_by_a_crashed_import_are_not_sent_again",
    ),
    _import(
        "an import sets its final state only if its offset is unchanged",
        '{"_id": self.source["_id"], "offset": self.source["offset"]},\n                {"$set": {"state": state}}',
        '{"_id": self.source["_id"]},\n                {"$set": {"state": state}}',
        _GUARDS + "test_an_overtaken_import_does_not_set_the_state_to_done",
    ),
    _content(
        "a growing log continues from its checkpoint",
        "self._stream.seek(self._base + self._hole + offset)",
        "self._stream.seek(self._base + self._hole)",
        _GUARDS + "test_a_long_log_continues_from_its_checkpoint",
    ),
    _import(
        "checkpoints move in the file's order",
        "                    self._checkpoint(pending.popleft())\n",
        "                    self._checkpoint(pending.pop())\n",
        "test_the_fields_of_a_log_may_change_between_chunks",
    ),
    _import("a binary file is refused", "        _refuse_binary(content.head)\n", "", "test_a_binary_file_is_refused"),
    _sources(
        "a known log is found after a line that is too long",
        "(at or not self._at_first_line)",
        "not at and not self._at_first_line",
        "test_a_known_log_after_a_line_that_is_too_long_is_stored_once",
    ),
    _import(
        "the readable lines of a damaged file are stored",
        "        except CutShort as error:\n            self._damage",
        "        except ZeroDivisionError as error:\n            self._damage",
        "test_the_readable_lines_of_a_truncated_gzip_are_stored",
    ),
    _store(
        "the rest of a line that was imported unfinished is rejected",
        "        if self.continues_a_line and offset == chunk.offset:\n",
        "        if False:\n",
        "test_an_unfinished_last_line_is_imported_and_its_rest_rejected",
    ),
    _store(
        "a line that is too long is rejected",
        "        if chunk.too_long:\n            raise",
        "        if False:\n            raise",
        "test_a_line_of_ten_megabytes_is_rejected_and_skipped",
    ),
    _feed(
        "hits of a log that is being forgotten are not counted",
        'mark: done or None, "state": source["state"]}',
        "mark: done or None}",
        "test_hits_of_a_log_that_is_forgotten_meanwhile_are_not_counted",
    ),
    _forget(
        "the time span that was stored first stays",
        '{"_id": source, "state": {"$ne": FORGETTING}}, {"$set": marked}',
        '{"_id": source}, {"$set": marked}',
        "test_a_log_that_two_forget_is_in_no_roll_up",
    ),
    _forget(
        "events are deleted until none is left",
        "    while any(map(list",
        "    if any(map(list",
        "test_events_that_move_behind_the_deletion_are_forgotten_too",
    ),
    _retention(
        "a move reads its events again",
        "if found := list(partition.find(ids, session=session)):",
        "if found := list(events):",
        "test_a_forgotten_event_does_not_return_by_a_move",
    ),
]
