"""Torture of real processes: kill, pause, all at once; every acknowledged write is checked."""
