"""System 7: orders, whose total is always the sum of their lines, and their cancellation."""
