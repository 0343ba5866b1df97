"""The stock of each SKU: its counts, the history of its changes, and the reservations of carts."""
