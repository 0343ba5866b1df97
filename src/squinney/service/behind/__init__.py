"""Behind this page: a page is made once more with recording on, to show the commands and documents that made it.

Recorded requests run in a second application with a client of its own (`mirror.py`), made when somebody asks for the
first time. So as long as nobody asks, nothing is recorded, and no request is slower.
"""
