"""The HTTP routes, web pages and commands of the advertising network."""
