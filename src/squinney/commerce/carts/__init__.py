"""System 6: carts that reserve stock, their checkout and their expiry."""
