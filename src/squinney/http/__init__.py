"""What surfaces are made of: errors, cursors, permissions, pages, charts and commands."""
