"""Guards of guarded steps, in both modes."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_TESTS = "tests/patterns/test_transactions.py"
_GUARDS = "tests/patterns/test_transaction_guards.py::"

_step = guards_of("squinney.transactions.steps", _TESTS)
_run = guards_of("squinney.transactions.two_phase", _TESTS)
_recovery = guards_of("squinney.transactions.recovery", _TESTS)
_native = guards_of("squinney.transactions.native", _TESTS)
_record = guards_of("squinney.transactions.records", _TESTS)
_runner = guards_of("squinney.transactions.runner", _TESTS)
_attempt = guards_of("squinney.transactions.attempts", _TESTS)
_group = guards_of("squinney.transactions.group_commit", "tests/patterns/test_transactions_together.py")
_keyed = guards_of("squinney.transactions.keyed", _TESTS)
_verdict = guards_of("squinney.transactions.verdicts", _TESTS)
_constraint = guards_of("squinney.transactions.constraints", "tests/patterns/test_modes_in_odd_places.py")
_escrow = guards_of("squinney.transactions.escrow", "tests/patterns/test_modes_in_odd_places.py")
_NATIVE = "test_what_could_be_refused_after_the_decision_is_one_transaction"
_orphan = guards_of("squinney.transactions.orphans", "tests/systems/ledger/test_repair.py")

STEPS = [
    _runner(
        "an operation chooses its mode where the mode is auto",
        'prefer if self._mode == "auto" else self._mode',
        "self._mode",
        "test_in_the_mode_auto_an_operation_chooses_how_it_runs",
    ),
    _step(
        "the server's clock stops a late prepare",
        "[step.condition, free_for(step), mine, in_time]",
        "[step.condition, free_for(step), mine]",
        "test_the_deadline_alone_stops_a_late_writer",
    ),
    _step(
        "the server's clock stops a late insert",
        '{"$cond": [{"$lt": ["$$NOW", deadline]}, 1, 0]}',
        "1",
        "test_the_deadline_alone_stops_a_late_writer",
    ),
    _step(
        "a tombstone stops a late prepare",
        '{"txns": {"$ne": txn}, "tombs": {"$ne": txn}}',
        '{"txns": {"$ne": txn}}',
        "test_the_tombstone_alone_stops_a_late_writer",
    ),
    _step(
        "a step is prepared once",
        '{"txns": {"$ne": txn}, "tombs": {"$ne": txn}}',
        '{"tombs": {"$ne": txn}}',
        _GUARDS + "test_a_step_is_prepared_once",
    ),
    _step(
        "two-phase steps check their guard",
        "[step.condition, free_for(step), mine, in_time]",
        "[free_for(step), mine, in_time]",
        "test_a_refused_run_changes_nothing",
    ),
    _step(
        "native steps check their guard",
        '{**step.document_filter, "$and": [step.condition, free_for(step)]}',
        '{**step.document_filter, "$and": [free_for(step)]}',
        "test_a_refused_run_changes_nothing",
    ),
    _step(
        "a native step waits for undecided runs",
        '{**step.document_filter, "$and": [step.condition, free_for(step)]}',
        '{**step.document_filter, "$and": [step.condition]}',
        "test_a_run_on_a_locked_document_is_busy_and_changes_nothing",
    ),
    _step(
        "a two-phase step waits for undecided runs",
        "[step.condition, free_for(step), mine, in_time]",
        "[step.condition, mine, in_time]",
        "test_a_run_on_a_locked_document_is_busy_and_changes_nothing",
    ),
    _step(
        "a step excludes shared runs from its document",
        'return {"txn_lock": None, **UNMARKED}',
        'return {"txn_lock": None}',
        "test_a_step_waits_for_undecided_runs_unless_both_are_shared",
    ),
    _step(
        "a step locks its document",
        'return {**marker, "$set": {"txn_lock": txn}}',
        "return marker",
        _GUARDS + "test_a_shared_step_waits_for_an_exclusive_one",
    ),
    _step(
        "takes with different limits exclude each other",
        'return {"txn_lock": None, "$or": [UNMARKED, {"txn_limit": step.limit}]}',
        'return {"txn_lock": None}',
        _GUARDS + "test_shared_takes_of_two_limits_wait_for_each_other",
    ),
    _recovery(
        "deletes come last",
        'ORDER.index(stored["verb"])',
        'int(stored["verb"] != "insert")',
        "test_a_deleted_id_is_free_only_after_the_rest_of_its_run_was_applied",
    ),
    _recovery(
        "a shared take is undone",
        'steps.merge(stored.get("undo", {}), _release(stored, txn))',
        "_release(stored, txn)",
        "test_a_late_writer_is_stopped",
    ),
    _native(
        "a native step that changes nothing still writes",
        'if verb == "update" and not errors and reply["nModified"]',
        'if verb == "none" and reply["nModified"]',
        _GUARDS + "test_a_native_run_that_only_guards_conflicts_with_changes",
    ),
    _step(
        "an undecided insert is a stub",
        '"_id": step.id, "txn_stub": txn, "txn_lock": txn}',
        '"_id": step.id, "txn_lock": txn}',
        "test_undecided_amounts_cannot_be_spent",
    ),
    _step(
        "documents of one collection have different keys",
        'return name, bson.encode({"": _by_value(document_id)}, codec_options=CODEC)',
        'return name, b""',
        "tests/unit/test_steps.py::test_a_document_has_one_step",
    ),
    _step(
        "an id that is a condition is rejected",
        "if is_pattern or any(str(name)",
        "if is_pattern and any(str(name)",
        "tests/unit/test_steps.py::test_an_id_is_never_a_condition_that_finds_some_other_document",
    ),
    _step(
        "a document has one step",
        "if len(self.documents) < len(self.steps):",
        "if False:",
        "tests/unit/test_steps.py::test_a_document_has_one_step",
        _GUARDS + "test_a_run_has_one_step_per_document",
    ),
    _step(
        "ids that are equal to the server have one key",
        'return name, bson.encode({"": _by_value(document_id)}',
        'return name, bson.encode({"": document_id}',
        "tests/unit/test_steps.py::test_a_document_has_one_step",
    ),
    _step(
        "steps cannot change the protocol's fields",
        "if names[0] in PROTOCOL_FIELDS:",
        "if False:",
        "tests/unit/test_steps.py::test_steps_leave_the_protocols_fields_alone",
    ),
]

TWO_PHASE = [
    _run(
        "a run cannot be committed after its deadline",
        '"state": "new", "$expr": {"$lt": ["$$NOW", "$deadline"]}}',
        '"state": "new"}',
        _GUARDS + "test_a_run_cannot_be_committed_after_its_deadline",
    ),
    _run(
        "a run that is being rolled back cannot be committed",
        '"txn": record["txn"], "state": "new", "$expr"',
        '"txn": record["txn"], "$expr"',
        _GUARDS + "test_a_run_that_is_being_rolled_back_cannot_be_committed",
    ),
    _run(
        "a run commits only its own record",
        'where = {"_id": record["_id"], "txn": record["txn"], "state": "new", "$expr"',
        'where = {"_id": record["_id"], "state": "new", "$expr"',
        _GUARDS + "test_a_late_run_does_not_commit_another_with_its_key",
    ),
    _recovery(
        "a committed run is not rolled back",
        'undecided = {**where, "state": {"$in": ["new", "rollback"]}}',
        "undecided = where",
        _GUARDS + "test_a_run_committed_meanwhile_is_not_rolled_back",
    ),
    _recovery(
        "a failing rollback keeps its start time",
        '"due_at": since}',
        '"due_at": "$$NOW"}',
        "tests/patterns/test_transactions.py::test_a_run_that_cannot_be_undone_is_reported_however_often_that_was_tried",
    ),
    _recovery(
        "only a run that is being rolled back is undone",
        ".matched_count:\n        return\n",
        ".matched_count:\n        pass\n",
        _GUARDS + "test_a_run_committed_meanwhile_is_not_rolled_back",
    ),
    _recovery(
        "tombstones are set before the undo",
        "        _for_each_collection(db, record, _tomb_request, may_be_refused=True)\n    _for_each_collection(db, record, _undo_request)\n",
        "        _for_each_collection(db, record, _undo_request)\n    _for_each_collection(db, record, _tomb_request, may_be_refused=True)\n",
        _GUARDS + "test_tombstones_are_set_before_the_undo",
    ),
    _recovery(
        "recovery sets tombstones",
        "        _for_each_collection(db, record, _tomb_request, may_be_refused=True)\n",
        "        pass\n",
        "test_the_tombstone_alone_stops_a_late_writer",
    ),
    _recovery(
        "tombstones are removed later",
        "        _schedule_sweep(db, record, tombs_for_seconds)\n",
        "        pass\n",
        "test_a_late_writer_is_stopped",
    ),
    _recovery(
        "tombstones are kept for the configured time",
        'record["deadline"] + timedelta(seconds=seconds)',
        'record["deadline"]',
        _GUARDS + "test_tombstones_are_kept_for_the_configured_time",
    ),
    _run(
        "recovery waits for the margin",
        '"due_at": after(seconds + margin_seconds)}',
        '"due_at": after(seconds)}',
        _GUARDS + "test_recovery_waits_for_the_margin",
    ),
    _run(
        "documents are prepared in one order",
        'ordered = sorted(plan, key=attrgetter("identity"))',
        "ordered = list(plan)",
        _GUARDS + "test_documents_are_prepared_in_one_order",
    ),
    _run(
        "a run with an unknown outcome is not rolled back",
        "if _outcome_unknown(error):",
        "if False:",
        _GUARDS + "test_a_run_with_an_unknown_outcome_is_not_rolled_back",
    ),
    _recovery(
        "a give is applied once",
        "return UpdateOne(_held(stored, txn), update, ",
        'return UpdateOne(dict(stored["filter"]), update, ',
        "test_two_recoveries_at_once_give_once",
    ),
    _recovery(
        "only the stub's own run makes it a document",
        '{**stored["filter"], "txn_stub" if stored["verb"] == "insert" else "txns": txn}',
        '{**stored["filter"], **({} if stored["verb"] == "insert" else {"txns": txn})}',
        _GUARDS + "test_only_its_own_run_makes_a_stub_a_document",
    ),
    _recovery(
        "an undo deletes only the run's own stub",
        "return DeleteOne(_held(stored, txn))\n    return UpdateOne(_held(stored, txn), steps.merge",
        'return DeleteOne(dict(stored["filter"]))\n    return UpdateOne(_held(stored, txn), steps.merge',
        "test_the_same_id_twice_is_refused",
    ),
    _run(
        "a repeat with a key gets the first outcome",
        '    if key is not None and record["txn"] != txn:\n',
        "    if False:\n",
        _GUARDS + "test_a_repeat_finishes_a_committed_run",
    ),
    _run(
        "a repeat finishes a committed run",
        'if record["state"] == "commit":\n',
        "if False:\n",
        _GUARDS + "test_a_repeat_finishes_a_committed_run",
    ),
    _run(
        "a failing rollback is left to recover",
        "        _try_to_settle(recovery.roll_back, db, record)\n        if not",
        "        recovery.roll_back(db, record)\n        if not",
        "test_a_failing_rollback_is_left_to_recover",
    ),
    _run(
        "invalid writes are rejected before the decision",
        "    _rehearse_finish(db, record)\n\n\ndef _prepare_one",
        "\n\ndef _prepare_one",
        "tests/patterns/test_modes_agree.py::test_random_plans_do_the_same_in_both_modes",
    ),
]

AROUND = [
    _native(
        "a step that matched nothing refuses the run",
        'if reply["n"] < len(writes) or reply.get("writeErrors"):',
        'if reply.get("writeErrors"):',
        "test_a_refused_run_changes_nothing",
    ),
    _native(
        "a write error refuses the run",
        'if reply["n"] < len(writes) or reply.get("writeErrors"):',
        "if False:",
        "test_the_same_id_twice_is_refused",
    ),
    _native(
        "a key's record is in the run's transaction",
        "    insert_records(db, [run.record for run in runs if run.record], session)\n    by_name",
        "    by_name",
        "test_a_lost_reply_in_native_mode_is_settled_by_a_repeat",
    ),
    _record(
        "a key belongs to its arguments",
        'if record["fingerprint"] != key.fingerprint:',
        "if False:",
        "tests/systems/ledger/test_accounts.py::test_a_key_with_other_arguments_is_refused",
    ),
    _record(
        "an undecided run has no outcome",
        'if record["state"] not in ("commit", "done"):',
        "if False:",
        _GUARDS + "test_an_undecided_run_has_no_outcome",
    ),
    _record(
        "a key belongs to its caller",
        'KeyRecord("key:" + _digest([key.scope, kind, key.text])',
        'KeyRecord("key:" + _digest([kind, key.text])',
        "tests/systems/ledger/test_accounts.py::test_a_key_is_the_callers_own",
    ),
    _runner(
        "a run that cannot be settled does not block other runs",
        "        except PyMongoError as error:\n            if is_away",
        "        except ZeroDivisionError as error:\n            if is_away",
        "test_a_run_that_cannot_be_settled_is_reported_and_does_not_block_others",
    ),
    _runner(
        "stale steps are built again",
        "if not callable(steps) or time.monotonic() >= until:",
        "if True:",
        "test_stale_steps_are_built_again",
    ),
    _attempt(
        "a transaction that ran out of time is aborted",
        "        Context().run(_abort, session)\n        raise\n",
        "        raise\n",
        "test_a_transaction_that_ran_out_of_time_is_aborted",
    ),
    _attempt(
        "a transaction that the server ended is retried",
        " or ended_by_the_server(error)\n",
        "\n",
        "test_a_transaction_that_the_server_ended_is_retried_while_time_is_left",
    ),
    _keyed(
        "work under a key happens once",
        "        if earlier := records.earlier_outcome(db, key_record, session):\n            return cast(T, earlier.result)\n",
        "",
        "test_once_runs_a_transaction_once_per_key",
    ),
    _verdict(
        "a value of a committed document refuses the step",
        "        raise step.duplicate(db[step.name].find_one(step.document_filter) if step.insert is None else None)\n    if (stub",
        "        pass\n    if (stub",
        "test_the_same_id_twice_is_refused",
    ),
    _verdict(
        "a step waits for a value of an undecided run",
        '    if holder.get("txn_lock") is None:\n',
        "    if True:\n",
        "test_an_insert_waits_for_one_that_is_not_decided",
    ),
    _verdict(
        "a step waits for an undecided value in an index with a collation",
        'step.insert or step.update.get("$set", {})',
        "step.insert or {}",
        "tests/patterns/test_modes_in_odd_places.py::test_no_undecided_value_refuses_an_update",
    ),
    _verdict(
        "a stub without a run is deleted",
        '        db[step.name].delete_one({"_id": holder["_id"], "txn_stub": stub})\n        return False\n',
        "        return True\n",
        "test_a_stub_that_was_inserted_too_late_is_deleted",
    ),
    _constraint(
        "a shared give that a validator could reject runs natively",
        "if not known.plain or any(_may_be_refused(step, known.validator) for step in steps):",
        "if not known.plain:",
        "test_both_modes_do_the_same",
    ),
    _constraint(
        "a take that is too large to be undone runs natively",
        "for update in (step.take, step.give) if update",
        "for update in (step.give,) if update",
        _NATIVE,
    ),
    _constraint(
        "a value that a nested partial filter makes unique runs natively",
        '*guarded_paths(index.get("partialFilterExpression", {}))',
        '*index.get("partialFilterExpression", {})',
        _NATIVE,
    ),
    _escrow(
        "a unique value inside an array runs natively",
        ' if not name.isdigit() and not name.startswith("$")]',
        "]",
        _NATIVE,
    ),
    _constraint(
        "a collection with a collation runs natively",
        '{"capped", "collation"}',
        '{"capped"}',
        "test_both_modes_do_the_same",
    ),
    _constraint(
        "a collection that limits the number of fields runs natively",
        'plain &= "minProperties" not in str(options)',
        "plain &= True",
        "test_both_modes_do_the_same",
    ),
    _escrow(
        "a shared number cannot be in the route",
        "guarded_paths({**other, **step.route})",
        "guarded_paths(other)",
        "tests/unit/test_steps.py::test_any_other_shape_cannot_be_shared",
    ),
    _attempt(
        "a rejected commit has an unknown outcome",
        'if error.timeout or not error.has_error_label("UnknownTransactionCommitResult"):',
        "if error.timeout:",
        "test_a_commit_that_the_server_rejects_has_an_unknown_outcome",
    ),
    _orphan(
        "a marker of an open run is not an orphan",
        "    if open_run(db, txn) is not None:\n        return False\n",
        "",
        "test_a_transfer_half_finished_is_no_problem",
    ),
]

TOGETHER = [
    _group(
        "runs in flight share no document",
        "taken = set(self._in_flight)",
        "taken: set[Any] = set()",
        "test_a_run_without_conflicts_starts_at_once_and_alone",
    ),
    _group(
        "a run starts at once only if no run in flight has its documents",
        "if self._may_start([run]) and not self._waiting and self._in_flight.isdisjoint(run.documents):",
        "if self._may_start([run]) and not self._waiting:",
        "test_no_run_overtakes_one_that_waits_for_the_same_document",
    ),
    _group(
        "a run waits for others to join while many are in flight",
        "if self._runs_in_flight < SLOTS or len(waiting) >= self._runs_in_flight:",
        "if True:",
        "test_while_many_are_in_flight_a_run_waits_until_as_many_wait",
    ),
    _group(
        "a run waits only briefly for others to join",
        "return waiting[0].came_at + COMPANY_SECONDS <= time.monotonic()",
        "return False",
        "test_one_slow_group_does_not_delay_all_others",
    ),
    _group(
        "a run never overtakes one that waits for the same document",
        "                taken |= run.documents\n",
        "                pass\n",
        "test_no_run_overtakes_one_that_waits_for_the_same_document",
    ),
    _group(
        "runs start in the order of the queue",
        "self._waiting.append(run)",
        "self._waiting.insert(0, run)",
        "test_waiting_runs_share_one_transaction",
    ),
    _group(
        "a group has a limit of writes",
        "self.writes + len(run.writes) <= MOST_WRITES",
        "True",
        "test_a_group_has_limits",
    ),
    _group(
        "a group has a limit of bytes",
        "self.size + run.size <= MOST_BYTES",
        "True",
        "test_a_group_has_limits",
    ),
    _group(
        "a run with little time left goes alone",
        "one.alone or one.ends_at < soon",
        "one.alone",
        "test_a_run_with_little_time_goes_alone",
    ),
    _group(
        "a group has the time limit of its most urgent run",
        "min(run.ends_at for run in self.runs)",
        "max(run.ends_at for run in self.runs)",
        "test_a_group_has_the_time_limit_of_its_most_urgent_run",
    ),
    _group(
        "a run of a refused group is retried alone",
        "one.alone or one.ends_at < soon",
        "one.ends_at < soon",
        "test_runs_of_a_refused_group_are_retried_alone",
    ),
    _group(
        "a group with a conflict is retried",
        "    if isinstance(error, PyMongoError) and attempts.may_try_again(error):\n        raise error\n",
        "",
        "test_a_group_that_conflicts_with_another_process_is_retried",
    ),
    _group(
        "a group's commit without a reply has an unknown outcome",
        "    if group.commit_sent:\n        raise Unavailable",
        "    if False:\n        raise Unavailable",
        "test_a_leader_that_dies_notifies_its_group",
    ),
    _group(
        "a leader that dies notifies its group",
        "        for other in others:\n            other.notified.set()\n",
        "        if run.group.done:\n            for other in others:\n                other.notified.set()\n",
        "test_a_leader_that_dies_notifies_its_group",
    ),
    _group(
        "a leader that dies frees its slot",
        "        finally:\n            self._leave(run)\n",
        "        except Exception:\n            self._leave(run)\n            raise\n        else:\n            self._leave(run)\n",
        "test_a_leader_that_dies_notifies_its_group",
    ),
    _group(
        "a run that has waited for long goes ahead",
        "min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)",
        "min(60.0, seconds_left() * SHARE_FOR_WAITING)",
        "test_a_thread_that_has_waited_for_long_goes_ahead",
    ),
    _group(
        "waiting leaves time for the transaction",
        "min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)",
        "LONGEST_WAIT_SECONDS",
        "test_a_run_that_runs_out_of_time_in_the_queue_is_busy",
    ),
    _group(
        "a forked child starts with an empty queue",
        "os.register_at_fork(after_in_child=_QUEUES.clear)",
        "pass",
        "test_a_forked_child_starts_with_an_empty_queue",
    ),
    _native(
        "runs of a group have one order in every collection",
        "by_name = sorted((write for run in runs for write in run.writes)",
        "by_name = sorted((write for run in reversed(runs) for write in run.writes)",
        "tests/patterns/test_transactions_together.py::test_waiting_runs_share_one_transaction",
    ),
    _native(
        "a key's record that the server rejects raises WriteRefused",
        'if _send_checked(db, records.NAME, "update", list(writes), session, "the key\'s record")',
        'if send(db, records.NAME, "update", list(writes), session)',
        "tests/patterns/test_transactions_together.py::test_a_record_that_the_server_rejects_raises_write_refused",
    ),
]

GUARDS = [*STEPS, *TWO_PHASE, *AROUND, *TOGETHER]
