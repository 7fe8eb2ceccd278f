"""The size of classes: an author who changes a part of a class has to know all of it."""

from tests.source import sizes, sources

METHODS_MAX = 25
ATTRIBUTES_MAX = 25

LARGER = {
    "docstore/client/client.py::Client": (34, 7),
    "docstore/config.py::Config": (3, 43),
    "gossip/config.py::Config": (5, 36),
}
"""Class -> (methods, attributes): an upper limit that only falls."""


def test_no_class_is_large() -> None:
    """Count what a class inherits from other classes of the product, too."""
    found = sizes([file for file in sources() if file.is_under("docstore", "gossip")])
    assert len(found) > 500
    large = {
        name: size
        for name, size in found.items()
        if size[0] > METHODS_MAX or size[1] > ATTRIBUTES_MAX
    }
    assert not {
        name: size
        for name, size in large.items()
        if any(has > most for has, most in zip(size, LARGER.get(name, (0, 0)), strict=True))
    }
    assert sorted(large) == sorted(LARGER), "take the classes that became smaller off LARGER"
