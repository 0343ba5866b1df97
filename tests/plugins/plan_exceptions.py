"""Queries that may run without an index, each with a reason. Keep this list short."""

# Suffixes of the product's modules that compare all documents after a proof.
PROOFS = (".proof", ".proof_checks")
# Suffixes of the product's functions that read all documents on purpose, when a user runs a check.
READS_EVERYTHING = (
    *(".find_problems", ".repair", ".find_stuck", ".find_orphans", ".drop_orphans"),
    *(".problems.problems", ".problems.repair_problems"),  # run all checks of a system
    *(".verify", ".advise_shard_key"),  # compare with all events; read a sample of events
    *(".ownership._is_recorded", ".renaming._make_way"),  # ask whether a collection has any document
    ".taking._read",  # backs up all collections
    *(".restoring._require_empty", ".restoring._remove_unfinished"),  # restore into empty collections only
    ".readers.count",  # counts the events of all pages, or of a sample if there are many
    *(".reset.finish_reset", ".reset._added"),  # remove the demo data, and count what is none
)

# The beginning of a command's shape, as the test run prints it, and why it may have no good plan.
EXCEPTIONS: list[tuple[str, str]] = [
    ('find squinney.demo {"loaded"', "one small document per part of the demo data"),
    ("find analytics.rollup_runs ", "one small document per roll-up"),
    ("find analytics.visit_runs ", "one small document per derivation of sessions"),
    ("distinct analytics.imports ", "the sites of all sources: one document per log file"),
    ("find analytics.visit_sessions {}", "a roll-up reads one document, to know whether its source has any"),
    ('find social.posts {"by": {"$in"', "more authors than ranges that the server merges: it keeps the oldest 10,000"),
    ('find analytics.imports {"head_hash": {"$in": []}}', "an empty list: nothing is read or sorted"),
]
