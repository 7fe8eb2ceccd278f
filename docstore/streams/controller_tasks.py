"""The controller's duties other than elections, which each have a file."""

from docstore.machines.updates import Updates
from docstore.streams.controlled_partition import ControlledPartition
from docstore.streams.controller import Controller
from docstore.streams.core import Core
from docstore.streams.deletion import Deletion
from docstore.streams.fail_back import FailBack
from docstore.streams.provisioning import Provisioning
from docstore.streams.reassignment import Reassignment
from docstore.streams.topic_audit import TopicAudit


class Duties:
    """Forwards each document to all duties of the controller, and advances them as time passes."""

    def __init__(self, core: Core, controller: Controller, updates: Updates) -> None:
        self._fail_back = FailBack(core)
        self.reassignment = Reassignment(core, controller)
        self.provisioning = Provisioning(core, updates)
        self._deletion = Deletion(core, controller, updates)
        self.topic_audit = TopicAudit(core, controller, updates)

    def entered(self, known: ControlledPartition) -> None:
        """Take a new version of a document."""
        self._fail_back.entered(known)
        self.reassignment.entered(known)
        self._deletion.entered(known)
        self.topic_audit.entered(known)

    def forgotten(self, known: ControlledPartition) -> None:
        """Drop a partition that this node no longer governs."""
        self._fail_back.forgotten(known)
        self.reassignment.forgotten(known)
        self._deletion.forgotten(known)
        self.topic_audit.forgotten(known)

    def tick(self) -> None:
        """Advance the duties under way."""
        self._fail_back.tick()
        self.reassignment.tick()
        self.provisioning.tick()
        self._deletion.tick()
        self.topic_audit.tick()
