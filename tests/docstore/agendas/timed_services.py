"""Services with timers and effects, as nodes load them."""

import os

from docstore.service import Change, Record, Refused, Request, Service, State, Timer, Webhook


class Clocks(Service):
    """A clock notes each due time of its timer."""

    path = "/clocks"
    kind = "test:Clock"
    methods = ("POST", "PATCH", "DELETE")

    def on_create(self, body: State, request: Request) -> State:
        request.start_timer("tick", every_s=body["every"])
        return {"born": request.now_us, "due": 0}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        request.stop_timer("tick")
        return state | {"stopped": True}

    def on_timer(self, state: State, timer: Timer, request: Request) -> State:
        return state | {"due": timer.due_us}


class Orders(Service):
    """An order sends its number to a ledger, to a topic and to a receiver."""

    path = "/orders"
    kind = "test:Order"
    webhook_secret = os.environ.get("ORDERS_SECRET", "")

    def on_create(self, body: State, request: Request) -> State:
        return {"n": 0, "webhook": body.get("webhook", "")}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        state["n"] += 1
        if "later" in body:
            request.after_commit(Change("PUT", body["later"], {}))
        said, name = {"n": state["n"]}, request.link.rpartition("/")[2]
        request.after_commit(Change("PATCH", f"/ledger/{name}", said))
        request.after_commit(Record("orders", said))
        if state["webhook"]:
            request.after_commit(Webhook(state["webhook"], {"type": "told"} | said))
        return state

    def on_delete(self, state: State, request: Request) -> None:
        self.on_patch(state, {}, request)


class Carts(Service):
    """Carts share partition keys, so that an atomic batch may create several."""

    path = "/carts:"
    kind = "test:Cart"

    def on_create(self, body: State, request: Request) -> State:
        if body.get("wrong"):
            raise Refused(409, "wrong")
        request.after_commit(Record("carts", {"n": body["n"]}, key="one"))
        return body


class Ledger(Service):
    """A ledger appends each entry that it receives."""

    path = "/ledger"
    kind = "test:Ledger"

    def on_create(self, body: State, request: Request) -> State:
        return {"told": []}

    def on_patch(self, state: State, body: State, request: Request) -> State:
        state["told"].append(body["n"])
        return state
