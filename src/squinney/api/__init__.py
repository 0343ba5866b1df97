"""The HTTP interface: one router per system, thin over its operations."""
