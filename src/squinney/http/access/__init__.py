"""Who visits and who may call a route, for how long, and how much new accounts may publish."""
