"""Queries that may run without an index, each with a reason. Keep this list short."""

# Suffixes of the product's modules that compare all documents after a proof.
PROOFS = (".proof", ".proof_checks")
# Suffixes of the product's functions that read all documents on purpose, when a user runs a check.
READS_EVERYTHING = (
    *(".find_problems", ".repair", ".find_stuck", ".find_orphans", ".drop_orphans"),
    *(".problems.problems", ".problems.repair_problems"),  # run all checks of a system
    *(".verify", ".advise_shard_key"),  # compare with all events; read a sample of events
)

# The beginning of a command's shape, as the test run prints it, and why it may have no good plan.
EXCEPTIONS: list[tuple[str, str]] = [
    ("find rollup_runs ", "one small document per roll-up"),
    ("find visit_runs ", "one small document per derivation of sessions"),
    ("distinct imports ", "the sites of all sources: one document per log file"),
    (
        'aggregate events [{"$match": {"$or": [{"ts"',
        "a roll-up of a test's own fields; the log's own is `time`",
    ),
    ('aggregate events [{"$match": {"ts"', "a roll-up of a test's own fields; the log's own is `time`"),
    ("find visit_sessions {}", "a roll-up reads one document, to know whether its source has any"),
    ("find events {}", "a move reads one document, to know whether a partition has any event left"),
    ('find imports {"head_hash": {"$in": []}}', "an empty list: nothing is read or sorted"),
]
