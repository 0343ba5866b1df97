"""System 7: orders, and what they ask of a payment provider."""
