"""Commands that measure the published figures and print them with their targets; not part of the tests."""
