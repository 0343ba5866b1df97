"""What proves our promises, for our tests and for operations of your own."""

from squinney.testing.explorer import Explored, Explorer, Operation, Refuted

__all__ = ["Explored", "Explorer", "Operation", "Refuted"]
