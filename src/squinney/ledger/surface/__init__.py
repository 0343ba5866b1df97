"""The HTTP routes, pages and commands of the ledger."""
