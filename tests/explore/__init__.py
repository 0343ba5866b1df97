"""Explore concurrent operations of every system with `squinney.testing.Explorer`, in every order of their commands."""
