"""Tasks of many steps, which go on although two of three nodes are killed, one after the other.

A mailing puts a letter into one mailbox after the other. Its steps are effects of commits, so every
mailbox gets every letter once, whatever fails in between; no code here repeats anything.
"""

import asyncio

from docstore.client import Client, LocalCluster
from docstore.service import Change, Request, Service, State, Unchanged
from docstore.task_service import TaskService, finished

READERS = ("ann", "bob", "cem", "dina", "eve", "finn", "gesa", "hua")
SUBJECTS = [f"letter {number}" for number in range(20)]


class Mailings(TaskService):
    """A mailing makes its next step when the last mailbox has answered."""

    path = "/mailings"
    step_every_s = 0
    time_limit_s = 120

    def step(self, task: State, request: Request) -> State | Unchanged:
        done = task.get("done", 0)
        if done == len(READERS):
            return finished(task, {"letters": done})
        letter = {"subject": task["subject"], "by": request.link, "number": done}
        request.after_commit(Change("PATCH", f"/mailboxes/{READERS[done]}", letter))
        return task


class Mailboxes(Service):
    """A mailbox keeps letters, and tells the mailing that it has one."""

    path = "/mailboxes"
    methods = ("POST", "PATCH")

    def on_create(self, body: State, request: Request) -> State:
        return {"letters": []}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        request.after_commit(Change("PATCH", body["by"], {"done": body["number"] + 1}))
        return {"letters": [*state["letters"], body["subject"]]}


async def results(store: Client) -> dict[str, int]:
    """Return subject -> number of letters, once all mailings have ended."""
    ended: dict[str, int] = {}
    async for change in store.follow("/mailings", since="earliest", where="stage = 'FINISHED'"):
        assert change.body is not None
        ended[change.body["subject"]] = change.body["result"]["letters"]
        if len(ended) == len(SUBJECTS):
            break
    return ended


async def fail(cluster: LocalCluster, link: str) -> None:
    """Kill the owner of a mailing; start it again, and kill the next owner."""
    for _ in range(2):
        await asyncio.sleep(0.3)
        owner = cluster.owner_of(link)
        cluster.kill(owner)
        print(f"{owner.name}, the owner of {link}, was killed")
        await asyncio.sleep(2)
        cluster.start(owner)
        await asyncio.to_thread(cluster.wait_ready)


async def main(cluster: LocalCluster) -> None:
    async with Client(cluster.urls) as store:
        for name in READERS:
            await store.post("/mailboxes", {"documentSelfLink": name})
        started = [await store.post("/mailings", {"subject": each}) for each in SUBJECTS]
        link = str(started[-1]["documentSelfLink"])
        ended, _ = await asyncio.gather(results(store), fail(cluster, link))
        print(f"{len(ended)} mailings have ended, with {sum(ended.values())} letters")
        assert ended == dict.fromkeys(SUBJECTS, len(READERS))
        for name in READERS:
            letters = (await store.get(f"/mailboxes/{name}"))["letters"]
            assert sorted(letters) == sorted(SUBJECTS), f"each once, for {name}"


if __name__ == "__main__":
    with LocalCluster(3, services=[Mailings, Mailboxes]) as group:
        asyncio.run(main(group))
