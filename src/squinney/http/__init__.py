"""The building blocks of every surface: error responses, cursors, permissions, pages, charts and commands."""
