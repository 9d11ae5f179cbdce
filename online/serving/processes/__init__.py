"""Child processes of a service: how they are kept alive, the store process, and the workers behind one port."""
