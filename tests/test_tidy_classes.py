"""How large a class may be where machines are: whoever changes a part has to know all of it."""

import pytest

from tests.source import sizes, sources

METHODS_MAX = ATTRIBUTES_MAX = 25
SMALL_CLASSES = ("docstore/protocol", "docstore/streams", "docstore/sessions")
"""Where no class has more, counting what it inherits from others of the same place."""


@pytest.mark.parametrize("place", SMALL_CLASSES)
def test_no_class_is_large(place: str) -> None:
    """Whoever changes one of its parts would have to know all of them."""
    found = sizes([file for file in sources() if file.is_under(place)])
    assert len(found) > 20
    large = {
        name: f"{methods} methods, {attributes} attributes"
        for name, (methods, attributes) in found.items()
        if methods > METHODS_MAX or attributes > ATTRIBUTES_MAX
    }
    assert not large
