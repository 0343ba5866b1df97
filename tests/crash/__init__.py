"""The crash sweep: every operation that writes more than once dies at each of its writes, in three ways.

Cases live in `cases_<system>.py`, in a list `CASES`, and are found by that name; `cases_ledger.py` is the model:

```python
CASES = [Case("Accounts.transfer", system="ledger", prepare=_two_accounts, act=_transfer, check=_moved_once)]
```

- `name` is `Class.method`, or `job:<name>` for a job; `covers` lists further public methods that `act` calls.
- `prepare(db)` fills the empty collections of the system and returns what the others need (it is pickled).
- `act(db, mode, state)` does the operation once, in a child process. Use `transactions(db, mode)`. Operations without
  `Transactions` take `modes=("native",)`, so that they are not swept twice.
- `check(db, state)` asserts what must hold afterwards, whether the operation happened or not. Where it takes a key,
  repeat it with the key here: that must settle it.

What the harness does at each point: it lets the server forget the dead process's open transaction, lets every deadline
in `transactions` pass (`age` does the same for what else a system waits for: leases, reservations), runs the core's
and the system's jobs, twice in a row or from two threads at once, and then asserts `check`, that `find_problems` is
empty and that no marker, lock, stub or tombstone is left. `repair` is not run: jobs alone must mend what a crash left.
"""
