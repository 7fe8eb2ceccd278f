"""Write the golden files anew, after a change that is meant: python -m tests.edges."""

from tests.edges.pinned import GOLDEN, TEXTS

if __name__ == "__main__":
    for name, text in TEXTS.items():
        (GOLDEN / name).write_text(text(), "utf-8")
