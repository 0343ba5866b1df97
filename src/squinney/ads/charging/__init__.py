"""What ads cost: budgets and the leases of them, funding, settling of impressions and clicks, and their counters."""
