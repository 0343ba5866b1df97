"""System 10: comments on nodes, with three storage strategies."""
