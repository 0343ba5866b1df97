"""What the service itself refuses."""

from squinney.errors import LimitReached


class RateLimited(LimitReached):
    """Too many requests."""

    code = "rate-limited"
