"""Services whose handlers get Pydantic models instead of dicts: `pip install 'docstore[pydantic]'`.

    from pydantic import BaseModel

    from docstore.model_service import ModelService
    from docstore.service import Refused, Request, State

    class Account(BaseModel):
        owner: str = ""
        balance: int = 0

    class Accounts(ModelService):
        path = "/accounts"
        model = Account

        def on_create(self, body: Account, request: Request) -> Account:
            return Account(owner=body.owner)

        def on_patch(self, state: Account, body: State, request: Request) -> Account:
            state.balance += body["amount"]
            return state

States and the bodies of POST and PUT are models; the body of a PATCH is a dict, as it is a part of
a state at most. A body that does not fit the model is 422, and so is a state that a merge has made.
"""

from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from docstore.service import Refused, Service, State

__all__ = ["ModelService"]


class ModelService(Service):
    """A service whose states are instances of a Pydantic model."""

    model: ClassVar[type[BaseModel]]
    """The model of the states."""

    def from_state(self, state: State) -> Any:
        """Return the model of a state, or raise Refused with the first error of each member."""
        try:
            return self.model.model_validate(state)
        except ValidationError as error:
            raise Refused(422, _why(error)) from None

    def to_state(self, made: Any) -> State:
        """Return the state of a model, by the aliases of its members."""
        if not isinstance(made, BaseModel):
            raise TypeError(f"a handler must return a model or a dict; got {type(made).__name__}")
        return made.model_dump(mode="json", by_alias=True)

    def check(self, state: State) -> None:
        """Raise Refused for a state that does not fit the model."""
        self.from_state(state)


def _why(error: ValidationError) -> str:
    """Return the faults of a body: for each its place, and what is wrong."""
    faults = [
        f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "; ".join(faults)
