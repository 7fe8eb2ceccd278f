"""What the shells of a node may see of its replica, and nothing of it that they could change."""
