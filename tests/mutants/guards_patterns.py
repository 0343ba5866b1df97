"""Guards of edit conflicts, paging and following changes."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_nonce = guards_of("squinney.patterns.nonces", "tests/patterns/test_nonces.py")
_page = guards_of("squinney.patterns.paging", "tests/patterns/test_paging.py")
_follow = guards_of("squinney.patterns.follow", "tests/patterns/test_follow.py")

GUARDS = [
    _nonce(
        "an edit applies only to the version it is based on",
        '{"$and": [where, {field: _plain(nonce)}]}',
        "where",
        "test_a_stale_nonce_is_refused_with_all_three_versions",
    ),
    _nonce(
        "a nonce must be a string",
        "{field: _plain(nonce)}",
        "{field: nonce}",
        "test_a_nonce_that_is_no_string_matches_nothing",
    ),
    _nonce(
        "an edit sets a new nonce",
        '"$set": {**update.get("$set", {}), field: new}',
        '"$set": {**update.get("$set", {}), field + "x": new}',
        "test_an_edit_changes_the_document_and_its_nonce",
    ),
    _nonce(
        "a repeated edit returns the document it has changed",
        "if current is not None and value_at(current, field) == new:",
        "if False:",
        "test_a_repeat_with_the_same_new_nonce_finds_that_it_has_happened",
    ),
    _nonce(
        "an update must not change the nonce",
        "if any(_overlap(field, path) for fields in update.values() for path in fields):",
        "if False:",
        "test_an_edit_may_not_set_the_nonce_itself",
    ),
    _nonce(
        "a nonce is not evaluated as an expression",
        '{field: {"$literal": new}}',
        "{field: new}",
        "test_a_pipeline_edits_too",
    ),
    _nonce(
        "an edit is part of its transaction",
        "        return_document=ReturnDocument.AFTER,\n        session=session,\n",
        "        return_document=ReturnDocument.AFTER,\n",
        "test_inside_a_transaction_the_edit_goes_with_it",
    ),
    _page(
        "an extra document shows whether there is a next page",
        "limit=limit + 1,",
        "limit=limit,",
        "test_a_list_that_ends_with_a_full_page_has_no_next",
    ),
    _page(
        "a page starts after its cursor",
        '{"$and": [where, after(query.sort, cursor)]}',
        "where",
        "test_what_is_there_throughout_comes_once_although_rows_come_and_go",
    ),
    _page(
        "a cursor of another list is rejected",
        "if keys.keys() != dict(sort).keys() or not {type(value) for value in keys.values()} <= PAGEABLE:",
        "if not {type(value) for value in keys.values()} <= PAGEABLE:",
        "test_a_foreign_cursor_is_refused",
    ),
    _page(
        "a cursor with arrays or documents is rejected",
        "if keys.keys() != dict(sort).keys() or not {type(value) for value in keys.values()} <= PAGEABLE:",
        "if keys.keys() != dict(sort).keys():",
        "test_a_foreign_cursor_is_refused",
    ),
    _page(
        "a cursor is decoded strictly",
        'altchars=b"-_", validate=True',
        'altchars=b"-_"',
        "test_a_foreign_cursor_is_refused",
    ),
    _page(
        "a cursor has a maximum length",
        "if not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR:",
        "if not isinstance(cursor, str):",
        "test_a_cursor_is_measured_before_it_is_decoded",
    ),
    _page(
        "values of a cursor are not evaluated as expressions",
        '{"$literal": keys[field]}',
        "keys[field]",
        "test_values_that_look_like_expressions_are_values",
    ),
    _page(
        "ties are broken by the next field",
        "        ties = {**ties, field: keys[field]}\n",
        "",
        "test_pages_concatenated_are_the_sorted_list",
    ),
    _page(
        "nothing sorts before null",
        "if direction > 0 or keys[field] is not None:",
        "if True:",
        "test_pages_concatenated_are_the_sorted_list",
    ),
    _page(
        "sort keys must not be arrays or documents",
        "if type(value) not in PAGEABLE:",
        "if False:",
        "test_an_array_cannot_be_paged_by",
    ),
    _page(
        "a projection must include the sort fields",
        "if projection and not all(_keeps(projection, field) for field, _ in query.sort):",
        "if False:",
        "test_a_projection_must_keep_the_sort",
    ),
    _page(
        "the limit of a page is checked",
        'limit = checks.integer(limit, "limit", least=1, most=most)',
        "limit = int(limit or 1)",
        "test_a_limit_out_of_bounds_is_refused",
    ),
    _follow(
        "the position is saved after the change was read",
        "                        read(change)\n",
        "                        self._must_save(position, moved=True)\n                        self._save(), read(change)\n",
        "test_an_error_of_the_reader_ends_following_before_the_position_is_saved",
    ),
    _follow(
        "a stream skips inserts of undecided runs",
        ', "fullDocument.txn_stub": None}',
        "}",
        "test_what_a_two_phase_run_inserts_comes_when_it_is_decided",
    ),
    _follow(
        "a stub that becomes a document is reported as an insert",
        '        kind = "insert"  # it was there',
        "        pass  # it was there",
        "test_what_a_two_phase_run_inserts_comes_when_it_is_decided",
    ),
    _follow(
        "a new follower saves its position",
        "            self._position = self._current_position()\n            self._save()\n",
        "            self._position = self._current_position()\n",
        "test_a_follower_that_polled_goes_on_by_change_stream",
    ),
    _follow(
        "a stream starts at the follower's first position",
        '{"token": stream.resume_token, "since": now}',
        '{"token": None, "since": now}',
        "test_what_changes_between_the_beginning_and_the_first_look_is_seen",
    ),
    _follow(
        "a position that the oplog has lost is a gap",
        "            if error.code in HISTORY_LOST:\n",
        "            if False:\n",
        "test_a_lost_position_is_reported_as_a_gap_and_following_continues",
    ),
    _follow(
        "a lost position stays until the gaps of all collections are read",
        'yield Change("gap", source.collection), lost',
        'yield Change("gap", source.collection), position',
        "test_a_crash_between_the_gaps_of_two_collections_loses_neither",
    ),
    _follow(
        "a follower continues at its saved position",
        'self._position = saved["position"] if saved else None',
        "self._position = None",
        "test_a_named_follower_goes_on_where_it_was[False]",
    ),
    _follow(
        "polling finds writes that become visible late",
        "server_now(self._db) - timedelta(seconds=self._overlap_seconds)",
        "server_now(self._db)",
        "test_polling_sees_what_became_visible_late_and_repeats_nothing",
    ),
    _follow(
        "polling repeats nothing",
        "            if seen.get(key) != at:\n",
        "            if True:\n",
        "test_polling_sees_what_became_visible_late_and_repeats_nothing",
    ),
    _follow(
        "polling skips inserts of undecided runs",
        'self._db[name].find(visible({field: {"$gte": since}}))',
        'self._db[name].find({field: {"$gte": since}})',
        "test_polling_does_not_see_what_is_undecided",
    ),
    _follow(
        "a reader that is too slow gets a gap",
        "            if len(self._waiting) > self._size:\n",
        "            if False:\n",
        "test_a_slow_reader_gets_a_gap_and_does_not_delay_others",
    ),
    _follow(
        "a gap for each collection of which something was lost",
        'deque(Change("gap", collection) for collection in lost)',
        'deque([Change("gap", next(iter(lost)))])',
        "test_a_slow_reader_gets_a_gap_for_each_collection_of_which_it_lost_something",
    ),
    _follow(
        "an error in one reader does not end the others",
        "            except Exception:  # an error in one",
        "            except KeyError:  # an error in one",
        "test_a_reader_that_fails_ends_alone",
    ),
]
