"""A request's way: its moments, the stages between them, the tree of its spans, and where the time went."""
