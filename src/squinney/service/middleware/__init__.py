"""The middleware around all routes."""
