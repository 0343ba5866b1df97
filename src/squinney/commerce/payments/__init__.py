"""Attempts to charge for a cart: their documents, the providers that take the money, and how each attempt ends."""
