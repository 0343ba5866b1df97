"""The tests; a package, so that child processes can import what they share."""
