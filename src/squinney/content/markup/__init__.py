"""Texts of pages and comments: limits on their markup, and CommonMark rendered to safe HTML."""
