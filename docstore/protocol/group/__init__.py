"""Who the members are: one configuration, chosen by vote, changed step by step."""
