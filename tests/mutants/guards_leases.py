"""Guards of leases, and of the worker that runs jobs under leases."""

from __future__ import annotations

from tests.mutants.guard import guards_of

_lease = guards_of("squinney.patterns.leases", "tests/patterns/test_leases.py")
_clock = guards_of("squinney.mongo.connect", "tests/patterns/test_leases.py")
_held = guards_of("squinney.service.jobs.holding", "tests/jobs/test_worker.py")
_worker = guards_of("squinney.service.jobs.worker", "tests/jobs/test_worker.py")
_job = guards_of("squinney.patterns.jobs", "tests/jobs/test_worker.py")

GUARDS = [
    _lease(
        "a valid lease is not acquired by another process",
        '{"$cond": [free, taken, {}]}',
        "taken",
        "test_one_of_many_gets_it",
    ),
    _lease(
        "only the process whose token is stored holds a lease",
        'if found is None or found.get("token") != token:',
        "if found is None:",
        "test_one_of_many_gets_it",
    ),
    _lease(
        "each holder has a greater term",
        '{"$add": [{"$ifNull": ["$term", 0]}, 1]}',
        '{"$ifNull": ["$term", 1]}',
        "test_it_passes_on_when_it_has_run_out_and_each_term_is_greater",
    ),
    _lease(
        "a lease counts from before its request",
        'int(found["term"]), requested + seconds)',
        'int(found["term"]), time.monotonic() + seconds)',
        "test_a_lease_counts_from_before_it_was_asked_for",
    ),
    _lease(
        "a renewed lease counts from before the request",
        "lease.sure_until = requested + seconds",
        "lease.sure_until = time.monotonic() + seconds",
        "test_a_lease_counts_from_before_it_was_asked_for",
    ),
    _lease(
        "a lost lease cannot be renewed",
        "if renewed.matched_count:\n",
        "if True:\n",
        "test_it_passes_on_when_it_has_run_out_and_each_term_is_greater",
    ),
    _lease(
        "only its holder renews a lease",
        'HELD(name=lease.name, token=lease.token), [{"$set": {"until": after(seconds)}}]',
        'LEASE(name=lease.name), [{"$set": {"until": after(seconds)}}]',
        "test_it_passes_on_when_it_has_run_out_and_each_term_is_greater",
    ),
    _lease(
        "only its holder releases a lease",
        'HELD(name=lease.name, token=lease.token), [{"$set": {"until": "$$NOW"}}',
        'LEASE(name=lease.name), [{"$set": {"until": "$$NOW"}}',
        "test_it_passes_on_when_it_has_run_out_and_each_term_is_greater",
    ),
    _lease(
        "an expired lease is not sure",
        "return time.monotonic() < self.sure_until",
        "return True",
        "test_it_passes_on_when_it_has_run_out_and_each_term_is_greater",
    ),
    _lease(
        "a released lease is not sure",
        "        lease.sure_until = 0\n",
        "",
        "test_a_release_lets_the_next_in_at_once",
    ),
    _lease(
        "a release frees the lease at once",
        '[{"$set": {"until": "$$NOW"}}, {"$unset": ["token", "holder"]}]',
        '[{"$unset": ["token", "holder"]}]',
        "test_a_release_lets_the_next_in_at_once",
    ),
    _clock(
        "the server's clock sets a lease's deadline",
        '"startDate": "$$NOW"',
        '"startDate": __import__("datetime").datetime.fromtimestamp(__import__("time").time(), None)',
        "test_the_deadline_is_the_servers_whatever_clock_a_holder_has",
    ),
    _held(
        "a lease is renewed while its work runs",
        "    renewing.start()\n",
        "",
        "test_a_long_job_keeps_its_lease",
    ),
    _held(
        "a lease is released when its work ends",
        "            leases.release(lease)\n",
        "            pass\n",
        "test_many_workers_run_a_job_once_at_a_time",
    ),
    _held(
        "a lease is renewed again after a failed renewal",
        'except (SquinneyError, PyMongoError) as error:\n            log.warning("lease %s could not be renewed',
        'except SquinneyError as error:\n            log.warning("lease %s could not be renewed',
        "test_a_lease_is_renewed_again_after_the_server_refused_once",
    ),
    _worker(
        "a worker checks again under the lease that a job is due",
        "where = records.RECORD(name=name) if even_if_not_due else records.DUE(names=[name])",
        "where = records.RECORD(name=name)",
        "test_a_job_runs_when_due_and_its_result_is_kept",
    ),
    _worker(
        "a worker that lost its lease records nothing",
        '{"_id": job.name, "term": lease.term}, changes',
        '{"_id": job.name}, changes',
        "test_a_worker_that_lost_its_lease_records_nothing",
    ),
    _worker(
        "a new worker does not make recorded jobs due",
        '{"$ifNull": ["$next_at", "$$NOW"]}',
        '"$$NOW"',
        "test_a_new_worker_makes_no_job_due",
    ),
    _worker(
        "a worker without the lease does not run the job",
        "if lease is None or not self._claim(",
        "if not lease: lease = Lease(name, '', 0, 0)\n            if not self._claim(",
        "test_a_long_job_keeps_its_lease",
    ),
    _worker(
        "the pause after a failure grows each time",
        'factor = {"$pow": [2, {"$min": ["$failures", 20]}]}',
        "factor = 1",
        "test_failures_are_kept_and_wait_longer_each_time",
    ),
    _worker(
        "stopping waits for running jobs",
        "            thread.join(max(0.0, until - time.monotonic()))\n",
        "            pass\n",
        "test_stop_waits_for_running_jobs",
    ),
    _worker(
        "a worker survives errors of the server",
        "except (SquinneyError, PyMongoError, RuntimeError) as error:",
        "except SquinneyError as error:",
        "test_a_worker_survives_errors_of_the_server[find]",
        "test_a_worker_survives_a_machine_without_threads",
    ),
    _worker(
        "results are not evaluated as expressions",
        '{"result": {"$literal": _storable(job.run(self._db))}}',
        '{"result": _storable(job.run(self._db))}',
        "test_results_are_stored_unchanged",
    ),
    _job(
        "the server's clock says when a job is due",
        '"$expr": {"$lte": ["$next_at", "$$NOW"]}',
        '"next_at": {"$ne": None}',
        "test_a_job_runs_when_due_and_its_result_is_kept",
    ),
]
