"""Who is asking, and what they may do: credentials, scopes, cookies."""
