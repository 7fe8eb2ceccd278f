"""Values that all packages share: documents and paths, operations and answers, JSON. Pure."""
