"""Log files on disk: their lines in chunks, what identifies their content, and how they are rotated."""
