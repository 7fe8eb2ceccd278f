"""A node in its group: the replica, its driver, and all that works on them.

Made when the group is known (`members/founding.py`), and ended after the last answer has left.
"""

import random
from collections.abc import Callable

from docstore.administration import Administration
from docstore.config import database_in
from docstore.driver import Driver, clock
from docstore.ground import Ground
from docstore.members.group import Group
from docstore.protocol.replica import Replica
from docstore.protocol.timing import ReplicaConfig
from docstore.reads.feed import Feed
from docstore.reads.listings import Listings
from docstore.reads.local import declarations
from docstore.reads.owners import Owners
from docstore.reads.scans import Scans
from docstore.services.announcing import Announcing
from docstore.services.declaring import Declaring
from docstore.storage.store import Recovered
from docstore.upkeep.expiring import Expiring
from docstore.upkeep.holding import Holding
from docstore.upkeep.repair import Repair
from docstore.upkeep.resync import Resync


class Serving:
    """All parts of a node that need the group.

    broken: called when the disk has failed; nothing may be answered after it.
    """

    def __init__(
        self,
        ground: Ground,
        recovered: Recovered,
        declaring: Declaring,
        broken: Callable[[BaseException], None],
    ) -> None:
        self._ground = ground
        self._declaring = declaring
        config, store, questions = ground.config, ground.store, ground.questions
        replica = self.replica = _replica(ground, recovered, declaring)
        driver = self.driver = Driver(
            replica, store, ground.links, publish=ground.registry.publish, broken=broken
        )
        self.resync = Resync(ground.node_id, replica, store, questions, driver.feed)
        self.expiring = Expiring(replica, store, driver.submit)
        self.repair = Repair(
            replica, store, self.resync.compare, driver.feed, config.repair_interval_s
        )
        self.scans = Scans(
            replica, driver, store, questions, database_in(config.data), config.segments_mb << 20
        )
        self.feed = Feed(replica, questions, self.scans.page)
        owners = Owners(replica, questions)
        self.listings = Listings(replica, driver, store, questions, owners)
        self.announcing = Announcing(replica.core, driver, ground.registry, questions, owners)
        self.holding = Holding(replica, self.listings)
        self.group = Group(
            ground.node_id, replica, driver, founding=ground.founding, lookup=ground.lookup,
            links=ground.links, membership=ground.membership, questions=questions,
        )  # fmt: skip
        self.administration = Administration(
            replica, store, questions, self.resync, ground.membership.describe, self.group
        )

    async def recall(self) -> None:
        """Know the factories that are declared on this disk."""
        for row in await declarations(self._ground.store, self.replica.core.logs):
            self._ground.registry.publish(row)

    def start(self) -> None:
        """Begin to take part."""
        self.driver.start()
        self.repair.start()
        self.expiring.start()
        if self.replica.core.config.history_retention_s > 0:
            self.holding.start()  # Otherwise nothing is let go of until somebody asks for it.
        self._declaring.start(self.replica)
        self.group.start()

    async def stop(self) -> None:
        """End all of it; what was answered is on the disk."""
        self.group.stop()
        await self.expiring.stop()
        await self.holding.stop()
        await self._declaring.stop()
        await self.repair.stop()
        await self.resync.stop()
        await self.scans.stop()
        await self.driver.stop()


def _replica(ground: Ground, recovered: Recovered, declaring: Declaring) -> Replica:
    config = ground.config
    life = f"{ground.node_id}/{recovered.store_id}/{recovered.boot}"
    return Replica(
        ground.node_id,
        recovered,
        service_for=declaring.service_for,
        rng=random.Random(life),
        vote_rng=random.Random(f"{life}/vote"),
        config=ReplicaConfig(
            heartbeat_interval_s=config.heartbeat_interval_s,
            owner_timeout_s=config.owner_timeout_s,
            remove_after_s=config.remove_after_s,
            history_retention_s=config.history_retention_s,
        ),
        now=clock(),
    )
