"""System 6: carts that reserve stock, the stock itself, and checkout."""
