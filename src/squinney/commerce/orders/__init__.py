"""System 7: orders, and the interface to payment providers."""
