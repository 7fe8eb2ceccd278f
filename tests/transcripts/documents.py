"""Behaviours of documents: writes, losses, take-overs, members."""

from tests.transcripts.stage import Stage, scene


@scene("put-at-the-owner")
async def put_at_the_owner(stage: Stage) -> None:
    """A PUT at the node that owns the document's slot.

    The owner appends the row to its journal and proposes it to the replicas of the slot. The row
    is decided when two of three journals have it; then the client is answered.
    """
    link = await stage.link_of("n1")
    await stage.ask("n1", "PUT", link, {"text": "first"})


@scene("put-at-another-node")
async def put_at_another_node(stage: Stage) -> None:
    """A PUT at a node that does not own the document's slot.

    The node forwards the operation to the owner, and answers the client when the owner has
    answered.
    """
    link = await stage.link_of("n1")
    await stage.ask("n2", "PUT", link, {"text": "first"})


@scene("get")
async def get(stage: Stage) -> None:
    """A strong GET, at the owner and at another node.

    The owner asks the other replicas whether it is still the owner before it answers. One answer
    is enough: with its own it is a majority.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    await stage.ask("n1", "GET", link)
    await stage.ask("n3", "GET", link)


@scene("compare-and-set")
async def compare_and_set(stage: Stage) -> None:
    """Two PUTs with the same If-Match: the second one is refused.

    The owner compares the version when it executes the operation, so nothing is proposed.
    """
    link = await stage.link_of("n1")
    answer = await stage.ask("n1", "PUT", link, {"text": "first"})
    await stage.ask("n1", "PUT", link, {"text": "second"}, If_Match=answer["etag"])
    await stage.ask("n1", "PUT", link, {"text": "third"}, If_Match=answer["etag"])


@scene("retry-with-a-key")
async def retry_with_a_key(stage: Stage) -> None:
    """A client sends a PATCH again because it did not get the answer.

    The Idempotency-Key is stored with the row. The owner finds it and repeats the answer; the
    document keeps its version.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"count": 1})
    for at in ("n1", "n2"):
        await stage.ask(at, "PATCH", link, {"count": 2}, Idempotency_Key="order-17")


@scene("lost-reply")
async def lost_reply(stage: Stage) -> None:
    """The connection to the owner breaks before its answer to a forwarded PUT arrives.

    The node sends the operation again under the same number. The owner recognises the number and
    repeats its answer, so the PUT is executed once.
    """
    link = await stage.link_of("n1")
    stage.cut(["n1"], ["n2"], both=False)
    stage.later(0.1, stage.mend)
    await stage.ask("n2", "PUT", link, {"text": "first"})


@scene("owner-killed")
async def owner_killed(stage: Stage) -> None:
    """The owner of a slot is killed, and a replica takes the slot over.

    The new owner asks a majority for the ends of their logs under a higher epoch (Prepare). From
    then on they refuse the old owner. It adopts the longest log, and only then takes writes.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    stage.kill("n1")
    await stage.sleep(2.0)
    stage.show(stage.slot(link))
    await stage.ask("n2", "PUT", link, {"text": "second"})


@scene("owner-returns")
async def owner_returns(stage: Stage) -> None:
    """The node that owns a slot by its hash comes back, and the node that stood in hands over.

    It gets the row that was decided meanwhile. After five seconds without trouble the acting owner
    asks it to take over (HandOver), so that the slot is without an owner for one round trip only.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    stage.kill("n1")
    await stage.sleep(2.0)
    await stage.quietly("n2", "PUT", link, {"text": "second"})
    stage.begin("n1")
    await stage.sleep(15.0)
    stage.show(stage.slot(link))
    await stage.ask("n1", "GET", link)


@scene("minority-cut-off")
async def minority_cut_off(stage: Stage) -> None:
    """The owner is cut off from both other nodes.

    It has noticed that it reaches no majority, so it answers 503 at once. One of the other two
    takes the slot over under a higher epoch. After the cut the old owner learns of that epoch and
    gets the row that it lacks.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    stage.cut(["n1"], ["n2", "n3"])
    await stage.sleep(3.0)
    stage.show(stage.slot(link))
    await stage.ask("n1", "PUT", link, {"text": "of the minority"})
    await stage.ask("n2", "PUT", link, {"text": "of the majority"})
    stage.say("the cut is mended")
    stage.mend()
    await stage.sleep(4.0)
    stage.show(stage.slot(link))


@scene("divergent-log")
async def divergent_log(stage: Stage) -> None:
    """An owner appends a row that reaches no other node, and loses its slot.

    The client is answered 504: the outcome is unknown. The new owner never sees the row and writes
    another one in its place. When the old owner is back, its row is truncated (Adopt names the last
    row that both logs have, `common`).
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    stage.cut(["n1"], ["n2", "n3"])
    await stage.ask("n1", "PUT", link, {"text": "lost"}, Docstore_Timeout_Ms="500")
    await stage.sleep(2.0)
    stage.skip()
    await stage.ask("n2", "PUT", link, {"text": "kept"})
    stage.say("the cut is mended")
    stage.mend()
    await stage.sleep(4.0)
    stage.show(stage.slot(link))
    await stage.ask("n1", "GET", link)


@scene("replica-catches-up")
async def replica_catches_up(stage: Stage) -> None:
    """A replica that was down for three rows comes back.

    Its answer to the first proposal shows a gap, and the owner sends what it lacks.
    """
    link = await stage.link_of("n1")
    stage.kill("n3")
    for number in range(3):
        await stage.quietly("n1", "PUT", link, {"number": number})
    stage.begin("n3")
    await stage.sleep(2.0)
    stage.show(stage.slot(link))


@scene("drain")
async def drain(stage: Stage) -> None:
    """An operator stops a node: it passes its slots on before it ends.

    The owner finishes what is under way and asks the replica that is next by hash to take over
    (HandOver). That takes one round trip instead of the time in which a silent owner is noticed.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    await stage.ask("n1", "DELETE", "/core/management", about=stage.slot(link))
    await stage.sleep(0.5)
    stage.show(stage.slot(link))
    await stage.ask("n2", "PUT", link, {"text": "second"})


@scene("atomic-batch")
async def atomic_batch(stage: Stage) -> None:
    """Two documents that share a partition key, and so a slot, are written all or nothing.

    The owner executes both operations and proposes both rows as one.
    """
    await stage.quietly("n1", "POST", "/core/factories", {"path": "/orders:"})
    await stage.sleep()
    links = ["/orders:/42", "/orders:/42~1"]
    lines = "\n".join(f'{{"op": "POST", "link": "{link}", "body": {{}}}}' for link in links)
    await stage.ask(
        "n1", "POST", "/core/bulk?atomic=true", lines.encode(), about=stage.slot(links[0]),
        Content_Type="application/x-ndjson",
    )  # fmt: skip


@scene("register-leader-elected")
async def register_leader_elected(stage: Stage) -> None:
    """The leader of the register is killed, and another voter is elected.

    The register holds the configuration of the group: its members and their roles. A candidate
    asks first without raising the generation (`pre=True`), so that a node that was cut off does
    not depose a working leader.
    """
    await stage.sleep(3.0)
    _, page = await stage.quietly("n1", "GET", "/core/node-groups/default")
    stage.kill(page["configuration"]["leader"])
    await stage.sleep(4.0)
    stage.show(kinds=("Canvass", "Vote", "Lead"))


@scene("node-joins")
async def node_joins(stage: Stage) -> None:
    """A fourth node joins, and becomes a replica of the slot in place of another one.

    The leader of the register changes the configuration in two steps. In the first one the new
    replica gets a copy (Copy) beside the three others. In the second one, when it has every row,
    the replica that the hash does not choose any more erases its copy. Both steps raise the epoch.
    """
    link = await stage.link_of("n1")
    await stage.quietly("n1", "PUT", link, {"text": "first"})
    await stage.join("n4", stage.slot(link))
    await stage.sleep(10.0)
    stage.show(stage.slot(link))
