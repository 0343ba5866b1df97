"""HTTP routes, pages and commands of the social network."""
