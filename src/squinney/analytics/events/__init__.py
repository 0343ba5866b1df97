"""The event log: events of web servers and applications, stored in pages."""
