"""The rules, without I/O: time and randomness come in as arguments."""
