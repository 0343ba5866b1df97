"""The crash sweep: every operation that writes more than once dies at each of its writes, in three ways.

Cases live in `cases_<system>.py`, in a list `CASES`, and are found by that name; `cases_ledger.py` is the model:

```python
CASES = [Case("Accounts.transfer", system="ledger", prepare=_two_accounts, act=_transfer, check=_moved_once)]
```

`squinney.testing.Case` explains the fields, `squinney.testing.Cases.sweep` what is done and asked at each point.

Where an operation takes a key, `check` repeats it with the key: that must settle it. `repair` is not run: jobs alone
must mend what a crash left.
"""
