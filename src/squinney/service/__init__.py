"""The running site: the application, its middleware, its jobs and its commands."""
