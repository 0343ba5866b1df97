"""System 9: the tree of pages, blog entries and photos, with versions and access control."""
