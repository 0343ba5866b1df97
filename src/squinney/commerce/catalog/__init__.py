"""System 4: products of many types, and how they are found."""
