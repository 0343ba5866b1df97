"""The bytes of photos and videos: how they come in, and how they are kept."""
