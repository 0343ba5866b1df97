"""Running the periodic jobs that the systems declare."""
