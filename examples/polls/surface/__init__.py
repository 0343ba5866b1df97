"""The web page and the commands of polls."""
