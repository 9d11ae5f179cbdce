"""A router: it sends each question to one of several language models, and learns from every thumb which one."""
