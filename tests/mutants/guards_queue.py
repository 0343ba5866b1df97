"""Guards of task queues, sequences and fair locks."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_queue = guards_of("squinney.patterns.queue", "tests/patterns/test_queue.py")
_sequence = guards_of("squinney.patterns.sequences", "tests/patterns/test_sequences.py")
_turn = guards_of("squinney.patterns.fair_locks", "tests/patterns/test_fair_locks.py")

GUARDS = [
    _queue(
        "a task of an undecided run is not delivered",
        'visible({"queue": queue, "state": "ready", "$expr": {"$lte": ["$due_at", "$$NOW"]}})',
        '{"queue": queue, "state": "ready", "$expr": {"$lte": ["$due_at", "$$NOW"]}}',
        "test_a_task_of_an_undecided_run_is_dummy_hash",
    ),
    _queue(
        "a task is not delivered before it is due",
        '"state": "ready", "$expr": {"$lte": ["$due_at", "$$NOW"]}',
        '"state": "ready"',
        "test_a_delay_is_kept",
        "test_put_again_while_it_is_worked_on_runs_it_once_more",
    ),
    _queue(
        "a dead letter is not delivered",
        '{"queue": queue, "state": "ready", "$expr"',
        '{"queue": queue, "$expr"',
        "test_a_task_that_kills_its_workers_becomes_a_dead_letter",
    ),
    _queue(
        "a queue delivers only its own tasks",
        'visible({"queue": queue, "state": "ready"',
        'visible({"state": "ready"',
        "test_queues_do_not_see_each_other",
    ),
    _queue(
        "only the worker with the receipt can end a task",
        '{"queue": queue, "_id": task_id, "receipt": receipt}',
        '{"queue": queue, "_id": task_id}',
        "test_what_a_dead_worker_took_is_due_again",
    ),
    _queue(
        "a task that was put once more is not deleted",
        '{**self._mine(task), "again": {"$ne": True}}',
        "self._mine(task)",
        "test_put_again_while_it_is_worked_on_runs_it_once_more",
    ),
    _queue(
        "putting a taken task schedules another run",
        '{"again": is_handed_out}',
        "{}",
        "test_put_again_while_it_is_worked_on_runs_it_once_more",
    ),
    _queue(
        "putting a taken task does not deliver it a second time",
        '{"$cond": [{"$ne": ["$state", "ready"]}, fresh, {"again": is_handed_out}]}',
        "fresh",
        "test_put_again_while_it_is_worked_on_runs_it_once_more",
    ),
    _queue(
        "two processes may put a new key concurrently",
        "except DuplicateKeyError:",
        "except ZeroDivisionError:",
        "test_two_processes_that_put_a_new_key_concurrently_both_succeed",
    ),
    _queue(
        "a body is not evaluated as an expression",
        '"body": {"$literal": _checked(body)}',
        '"body": _checked(body)',
        "test_bodies_are_checked_and_never_evaluated",
    ),
    _queue(
        "a task that kills its workers becomes a dead letter",
        'spent = {"$gte": [tries, self._most_tries]}',
        "spent = False",
        "test_a_task_that_kills_its_workers_becomes_a_dead_letter",
    ),
    _queue(
        "a task that fails each time becomes a dead letter",
        "dead if spent else later",
        "later",
        "test_a_dead_key_lives_again_when_put",
    ),
    _queue(
        "a task put again has all its tries when it is taken",
        'tries = {"$cond": ["$again", 0, "$tries"]}',
        'tries = "$tries"',
        "test_put_again_before_the_last_taker_dies_keeps_it_alive",
    ),
    _queue(
        "a task put again has all its tries when it fails",
        'change = {"$cond": ["$again", renewed, dead if spent else later]}',
        'change = {"$cond": [False, renewed, dead if spent else later]}',
        "test_put_again_before_the_last_try_fails_keeps_it_alive",
    ),
    _queue(
        "a taken task is due again after the visibility time",
        '            "due_at": after(self._visibility_seconds),\n            "again"',
        '            "again"',
        "test_tasks_come_in_order_and_are_gone_when_done",
    ),
    _queue(
        "only dead letters are revived",
        '"state": "dead"}\n        alive',
        "}\n        alive",
        "test_only_the_dead_are_revived_or_dropped",
    ),
    _queue(
        "only dead letters are dropped",
        '"state": "dead"}\n        return self._tasks.delete_one',
        "}\n        return self._tasks.delete_one",
        "test_only_the_dead_are_revived_or_dropped",
    ),
    _queue(
        "an error in a handler fails only its task",
        '        except Exception as error:\n            log.exception("task %s failed',
        '        except KeyError as error:\n            log.exception("task %s failed',
        "test_an_error_in_a_handler_fails_only_its_task",
    ),
    _queue(
        "a body has a maximum size",
        "if size > MOST_BODY_BYTES:",
        "if False:",
        "test_bodies_are_checked_and_never_evaluated",
    ),
    _sequence(
        "two processes may create a sequence concurrently",
        "except DuplicateKeyError:",
        "except ZeroDivisionError:",
        "test_two_processes_that_create_a_sequence_concurrently_both_get_numbers",
    ),
    _sequence(
        "a number is returned when a majority has stored the counter",
        'pinned(db)["sequences"]',
        'db["sequences"]',
        "test_a_number_is_returned_when_a_majority_has_stored_the_counter",
    ),
    _sequence(
        "a forked child drops the numbers of its parent",
        "if os.getpid() != self._process:",
        "if False:",
        "test_a_forked_child_leaves_the_waiting_numbers_to_its_parent",
    ),
    _sequence(
        "a batch of numbers is reserved completely",
        '{"$inc": {"last": count}}',
        '{"$inc": {"last": 1}}',
        "test_a_new_process_leaves_a_gap_and_repeats_nothing",
    ),
    _sequence(
        "reserved numbers end with the stored counter",
        "range(last - count + 1, last + 1)",
        "range(last - count, last)",
        "test_numbers_begin_at_one_and_follow_each_other",
    ),
    _sequence(
        "threads share one batch",
        "        with self._locks[name]:\n",
        "        if True:\n",
        "test_threads_without_numbers_reserve_one_batch",
    ),
    _turn(
        "one thread at a time holds a fair lock",
        "            mine.wait(max(0.0, min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)))\n",
        "",
        "test_one_at_a_time_in_the_order_of_coming",
    ),
    _turn(
        "threads get a fair lock in order",
        "line.append(mine)",
        "line.appendleft(mine)",
        "test_one_at_a_time_in_the_order_of_coming",
    ),
    _turn(
        "releasing a fair lock notifies the next thread",
        "                if line:\n                    line[0].set()\n",
        "                if line:\n                    pass\n",
        "test_releasing_a_lock_notifies_the_next_thread",
    ),
    _turn(
        "unused names of fair locks are dropped",
        "del self._waiting[name]",
        "pass",
        "test_a_failure_passes_the_turn_on",
    ),
    _turn(
        "a thread that has waited for long goes ahead",
        "min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)",
        "min(60.0, seconds_left() * SHARE_FOR_WAITING)",
        "test_a_thread_that_has_waited_for_long_goes_ahead",
    ),
    _turn(
        "waiting leaves time for the work",
        "min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)",
        "LONGEST_WAIT_SECONDS",
        "test_waiting_leaves_time_for_the_work",
    ),
    _turn(
        "a fair lock reports whether other threads have it",
        "crowded = len(line) > 1",
        "crowded = False",
        "test_a_lock_reports_whether_other_threads_have_it",
    ),
    _queue(
        "a task of a batch goes to one worker",
        "self._tasks.update_many({**DUE(queue=self.name), **some},",
        "self._tasks.update_many(some,",
        "test_a_worker_gets_no_tasks_that_another_takes_first",
    ),
    _queue(
        "only the worker that took a batch can end it",
        'mine["receipt"] = {"$in": sorted({task.get("receipt", "") for task in tasks})}',
        "pass",
        "test_some_are_taken_in_order_and_are_gone_when_done",
    ),
]
