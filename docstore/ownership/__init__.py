"""Who may act: policies that pick an owner, side by side, and the one fence that all obey."""
