"""Upload and storage of the files of photos and videos."""
