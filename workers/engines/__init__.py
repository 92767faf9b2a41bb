"""Engines behind one port: ``vllm`` (real) and ``simulator`` (a model of one)."""
