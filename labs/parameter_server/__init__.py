"""Central parameters: servers that hold a network, and workers that send gradients of it."""
