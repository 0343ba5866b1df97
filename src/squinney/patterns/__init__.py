"""What the systems share: the patterns of the book's first part, and a few of our own."""
