"""The ready set: where admitted items wait, in fair order, until an engine has room."""
