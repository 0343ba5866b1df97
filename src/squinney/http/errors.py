"""What the service itself refuses."""

from squinney.errors import TooManyRequests


class RateLimited(TooManyRequests):
    """Too many requests."""
