"""The data plane: OpenAI-shaped endpoints and the journey of a request."""
