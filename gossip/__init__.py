"""Who is here: group membership by gossip, after SWIM and Lifeguard.

    agent = Agent("n1", ("127.0.0.1", 7001), config=Config.lan(), seeds=[("127.0.0.1", 7000)])
    agent.subscribe(lambda change: print(change.previous, "->", change.member.state))
    await agent.start()

A guided tour, in the order in which the files explain each other:

| file                        | what it tells                                             |
|-----------------------------|-----------------------------------------------------------|
| `member.py`                 | what we believe about a member; which belief wins         |
| `messages.py`, `wire.py`    | every message with its limits; its bytes                  |
| `protocol/events.py`         | all that can happen to us                                 |
| `protocol/effects.py`        | all that we can ask of the world                          |
| `protocol/swim.py`          | `Swim.step(event, now) -> list[Effect]`: the protocol     |
| `protocol/membership.py`    | what follows when a belief changes                        |
| `protocol/claim_rules.py`       | who may say what; when we refute                          |
| `protocol/chronicle.py`     | why we believe what we believe                            |
| `protocol/probe.py`         | how a failure is noticed                                  |
| `protocol/order.py`         | who is probed next                                        |
| `protocol/suspicion.py`     | how long the accused may defend itself                    |
| `protocol/awareness.py`     | how we notice that it is we who are ill                   |
| `protocol/broadcast.py`     | how news spreads                                          |
| `protocol/join.py`          | how we find the others                                    |
| `protocol/anti_entropy.py`  | how the group heals                                       |
| `protocol/digest.py`        | how tables are compared without being sent                |
| `agent.py`                  | the shell around one `Swim`; with it `transport.py` for   |
|                             | sockets, `clock.py` for timers, `subscribers.py` for all who |
|                             | want to know, `snapshot.py` for the way back              |
| `security/`                 | who can be a member, and with which key                   |
| `news.py`                   | what applications are told                                |
| `config.py`, `errors.py`    | every number with its reason; every refusal               |

The answers are hints. A member held dead may live, a member held alive may have died just now;
whoever needs certainty needs a quorum, not a detector.
"""

from gossip.agent import Agent
from gossip.config import Config
from gossip.errors import GossipError
from gossip.member import Address, Change, Member, State
from gossip.protocol.chronicle import Moment
from gossip.security.admission import Security
from gossip.security.keyring import Keyring
from gossip.snapshot import Snapshot

__all__ = [
    "Address",
    "Agent",
    "Change",
    "Config",
    "GossipError",
    "Keyring",
    "Member",
    "Moment",
    "Security",
    "Snapshot",
    "State",
]
