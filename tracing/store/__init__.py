"""Where requests are kept: one row each, all moments of some, and sums for the heat map."""
