"""Models as engines need them: a directory with weights, tokenizer, manifest and known answers."""
