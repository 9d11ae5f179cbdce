"""Where models compute: the devices of this machine, what lies where, and what happens when memory runs out."""
