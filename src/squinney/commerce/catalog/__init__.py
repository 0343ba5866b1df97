"""System 4: the product catalog and its search."""
