"""Signed feedback URLs: the holder of one may rate one prediction, on a page or with a program."""
