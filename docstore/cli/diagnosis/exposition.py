"""The text of /metrics, read back."""


def parsed(text: str) -> dict[str, float]:
    """Return name, with its labels, -> value. What is no sample is left out."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            try:
                found[name] = float(value)
            except ValueError:
                continue
    return found
