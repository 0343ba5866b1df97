"""Import and export of the tree as a folder of Markdown files and pictures."""
