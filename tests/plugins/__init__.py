"""What runs beside every test: counts of writes and crash points, and the audit of queries."""
