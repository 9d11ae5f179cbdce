"""The graph of each kind that can be exported: `build(model, graph, retired)`."""
