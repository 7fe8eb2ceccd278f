"""The sample service at /core/examples, which Xenon's users know: a name is required."""

from docstore.service import Refused, Service, State

DESCRIPTION = {
    "title": "ExampleServiceState",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "what it is called",
                 "examples": ["first"]},
        "counter": {"type": "integer", "description": "a number that programs count with"},
        "keyValues": {"type": "object", "additionalProperties": {"type": "string"},
                      "description": "texts by texts"},
    },
}  # fmt: skip
"""Description of the documents, as a schema; it refuses nothing, since `check` does that."""


class ExampleService(Service):
    """Documents with a name, a counter and key-value pairs. PUT does not create them."""

    path = "/core/examples"
    kind = "example:ExampleService"
    put_creates = False

    def check(self, state: State) -> None:
        """Refuse a state without a name, or with members of the wrong kind."""
        name = state.get("name")
        if not isinstance(name, str) or not name:
            raise Refused(400, "`name` must be given")
        counter = state.get("counter", 0)
        if isinstance(counter, bool) or not isinstance(counter, int):
            raise Refused(400, "`counter` must be an integer")
        pairs = state.get("keyValues", {})
        if not isinstance(pairs, dict) or not all(isinstance(v, str) for v in pairs.values()):
            raise Refused(400, "`keyValues` must be an object of strings")
