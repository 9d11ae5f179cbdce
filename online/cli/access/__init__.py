"""Commands about who may do what, and about what is kept of people."""
