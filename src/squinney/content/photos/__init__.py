"""Photos and videos: nodes whose bytes are a file, of this system or kept for another one."""
