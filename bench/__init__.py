"""Every figure that the README claims, each reproducible with one command: ``make bench ARGS="NAME"``."""
