"""The server we stand on: finding or starting it, connecting, and making databases ready."""
