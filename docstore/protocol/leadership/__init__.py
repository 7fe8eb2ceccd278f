"""Who leads a slot: heard or not, taken over, given away, deposed; what a reign knows of itself."""
