"""Proves on a real engine that a batch means the same as each of its prompts alone (requirement W5)."""
