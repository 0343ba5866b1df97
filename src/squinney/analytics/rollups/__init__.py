"""System 3: totals by hour, day, week, month and year, from events."""
