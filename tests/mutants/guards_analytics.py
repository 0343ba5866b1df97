"""Imports: each line once, whatever dies."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_import = guards_of("squinney.analytics.events.imports", "tests/systems/analytics/test_imports.py")
_content = guards_of("squinney.analytics.events.log_content", "tests/systems/analytics/test_imports.py")
_store = guards_of("squinney.analytics.events.storing", "tests/systems/analytics/test_imports.py")
_GUARDS = "tests/systems/analytics/test_guards.py::"

GUARDS = [
    _import(
        "a checkpoint moves only from where it was",
        '{"_id": self._source["_id"], "offset": chunk.offset, "state"',
        '{"_id": self._source["_id"], "state"',
        _GUARDS + "test_of_two_imports_of_one_source_the_slower_counts_nothing",
    ),
    _import(
        "what was stored behind the checkpoint is not stored again",
        'known = {sources.offset_in(event["_id"]) for event in stored}',
        "known: set[int] = set()",
        _GUARDS + "test_what_a_dead_import_stored_is_not_sent_again",
    ),
    _import(
        "an import ends only where it was",
        '{"_id": self._source["_id"], "offset": self._source["offset"]},\n                {"$set": {"state": state}}',
        '{"_id": self._source["_id"]},\n                {"$set": {"state": state}}',
        _GUARDS + "test_an_import_that_was_overtaken_does_not_say_that_it_is_done",
    ),
    _content(
        "a growing log goes on at its checkpoint",
        "self._stream.seek(self._base + self._hole + offset)",
        "self._stream.seek(self._base + self._hole)",
        _GUARDS + "test_a_long_log_goes_on_at_its_checkpoint",
    ),
    _import(
        "checkpoints are in the file's order",
        "                    self._checkpoint(under_way.popleft())\n",
        "                    self._checkpoint(under_way.pop())\n",
        "test_the_fields_of_a_log_may_change_between_chunks",
    ),
    _import("a binary file is no log", "    _refuse_binary(content.head)\n", "", "test_a_binary_file_is_refused"),
    _import(
        "a damaged file stores what can be read",
        "        except CutShort as error:\n            note",
        "        except ZeroDivisionError as error:\n            note",
        "test_a_cut_gzip_stores_what_can_be_read",
    ),
    _store(
        "the rest of a line that was taken without its end is named",
        "        if self.continues_a_line and offset == chunk.offset:\n",
        "        if False:\n",
        "test_a_last_line_without_end_is_taken_and_its_rest_named",
    ),
    _store(
        "a line that is too long is named",
        "        if chunk.too_long:\n            raise",
        "        if False:\n            raise",
        "test_a_line_of_ten_megabytes_is_named_and_passed",
    ),
]
