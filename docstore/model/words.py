"""Numbers in words, for people."""


def count(number: int, what: str) -> str:
    """Return a number of things in words: `1 slot`, `1,024 slots`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
