"""Commands of the operators' side."""
