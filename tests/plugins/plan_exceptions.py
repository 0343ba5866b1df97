"""What may be answered without an index, each with its reason. Keep this short."""

# How modules of the product end that compare everything after a proof.
PROOFS = (".proof", ".proof_checks")
# How functions of the product end that read everything on purpose, when a person asks for it.
READS_EVERYTHING = (
    *(".find_problems", ".repair", ".find_stuck", ".find_orphans", ".drop_orphans"),
    *(".problems.problems", ".problems.mend"),  # go through a system's checks
    *(".verify", ".advise_shard_key"),  # compare with all events; read a sample of them
)

# The beginning of a shape as the run prints it, and why it may be as it is.
EXCEPTIONS: list[tuple[str, str]] = [
    ("find rollup_runs ", "one small document per roll-up"),
    ("find visit_runs ", "one small document per derivation of sessions"),
    ("distinct imports ", "the sites of all sources: one document per log file"),
    (
        'aggregate events [{"$match": {"$or": [{"ts"',
        "a roll-up of a test's own fields; the log's own is `time`",
    ),
    ('aggregate events [{"$match": {"ts"', "a roll-up of a test's own fields; the log's own is `time`"),
    ("find visit_sessions {}", "a roll-up asks whether its source has any document: the first will do"),
    ("find events {}", "a move asks whether a place has any event left: the first will do"),
    ('find imports {"head_hash": {"$in": []}}', "an empty list: nothing is read or sorted"),
]
