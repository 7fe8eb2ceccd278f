"""INSERTs of many lines in one statement."""

MANY = 64
"""Most lines or keys in one statement. SQLite's module releases the interpreter's
lock whenever it steps a statement, and a busy event loop takes half a millisecond to give it back:
a loaded node wrote 2,000 rows a second one by one, and writes 16,000 like this."""

MANY_ROWS = 256
"""Most rows of documents in one statement. Rows are the most frequent lines of a load. Next to a
busy loop a row costs 16 us of processor time with 256 rows in a statement, 22 with 64, and 12
without a loop. More than 256 would not be cheaper, and would hold the lock for longer."""


Insert = dict[int, str]
"""Number of lines -> the INSERT of that many, largest first, so that a few prepared statements
insert any number of lines."""


def inserts(one: str, most: int) -> Insert:
    """Return the texts of an INSERT, given the text for one line. most: lines in one text."""
    before, _, after = one.partition("VALUES (")
    values, _, rest = after.partition(")")
    sizes = [1 << power for power in reversed(range(most.bit_length()))]
    lines = {size: ", ".join([f"({values})"] * size) for size in sizes}
    return {size: f"{before}VALUES {text}{rest}" for size, text in lines.items()}
