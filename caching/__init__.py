"""Protection over Redis: kept answers, filters of what exists, hot keys, last good copies, eviction."""
