"""A model of an inference engine: KV blocks, scheduler, step times, answers. No clock and no randomness of its own."""
