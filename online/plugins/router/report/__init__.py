"""Reports about a router: what its routes cost, what their answers are worth, and what another policy would have given."""
