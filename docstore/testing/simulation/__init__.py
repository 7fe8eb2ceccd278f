"""Virtual time, bad links and processes that die, all from a seed: to test a protocol with."""
