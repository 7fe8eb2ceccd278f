"""What a node did: the last steps of its machines. Drivers record them."""
