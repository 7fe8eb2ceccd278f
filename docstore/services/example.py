"""The sample service at /core/examples, as users of Xenon know it: a name is required."""

from docstore.model import patch
from docstore.model.service import Refusal, ServiceOptions, State

SCHEMA = {
    "title": "ExampleServiceState",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "what it is called", "examples": ["first"]},
        "counter": {"type": "integer", "description": "a number that programs count with"},
        "keyValues": {"type": "object", "description": "texts by texts"},
    },
}
"""Describes its documents; what is refused is said by `check`."""


class ExampleService:
    """Documents with a name, a counter and key-value pairs. PUT does not create them."""

    options = ServiceOptions(
        path="/core/examples", kind="example:ExampleService", put_creates=False, schema=SCHEMA
    )
    checks = True

    def check(self, state: State) -> None:
        """Refuse a state without a name, or with members of the wrong kind."""
        name = state.get("name")
        if not isinstance(name, str) or not name:
            raise Refusal("name is required", status=400)
        counter = state.get("counter", 0)
        if isinstance(counter, bool) or not isinstance(counter, int):
            raise Refusal("counter is an integer", status=400)
        pairs = state.get("keyValues", {})
        if not isinstance(pairs, dict) or not all(isinstance(v, str) for v in pairs.values()):
            raise Refusal("keyValues maps strings to strings", status=400)

    def patch(self, state: State, change: State) -> State | None:
        """Merge the change; the state as it was means that nothing changed."""
        after: State = patch.merge(state, change)
        return None if after == state else after
