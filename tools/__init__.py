"""What installs, checks and tests need beside the product; standard library only, where make starts it."""
