"""Commands of an operator for a partition, carried out by its controller."""

from docstore.ownership.by_lag import LED
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.effects import Begun, Problem
from docstore.streams.events import CommandAsked
from docstore.streams.leading import in_set
from docstore.streams.reassignment import Reassignment
from docstore.wire.streams_messages import Yield


class Commands:
    """Carries out commands for the partitions that this node governs."""

    def __init__(self, core: Core, controller: Controller, reassignment: Reassignment) -> None:
        self._core = core
        self._controller = controller
        self._reassignment = reassignment

    def asked(self, event: CommandAsked) -> Begun | Problem:
        """Begin a command, or return why it is rejected."""
        known = self._controller.governed.get(event.link)
        if known is None:
            return Problem(503, "not-leader", "this node is not the partition's controller")
        found = known.found
        match event.command:
            case ("elect", unclean):
                known.is_unclean = bool(unclean)
                self._controller.elections.elect(known, "it was asked for")
            case ("lead", str(node)):
                if found.resolution not in LED or not in_set(found.lrs, node):
                    return Problem(409, "not-in-sync", f"{node} is not in the live replica set")
                if node != found.leader:
                    known.wished = (found.epoch, node)
                    self._core.post(found.leader, Yield, (known.name, found.epoch, node))
            case ("place", tuple(replicas)):
                why = self._reassignment.want(known, tuple(map(str, replicas)))
                if why:
                    return Problem(409, "not-possible", why)
            case _:
                return Problem(400, "bad-request", "there is no such command")
        return Begun()
