// Questions in a dialog, and buttons that ask one before they change anything.

import { fill, h } from "/core/ui/dom.js";
import { ask, encoded } from "/core/ui/node.js";
import { again, nameOf } from "/core/ui/places.js";

// A dialog that is there until it is closed; resolves with the value of the button that closed it,
// "" if none did. buttons: [value, title, class]; Enter is as the first. act(value, {tell, signal})
// runs before a button with a value closes it: if it fails, the dialog stays and shows the error.
// tell(text) says how far it is; the signal tells it that the dialog was closed meanwhile.
export function dialog(title, content, buttons, act = async () => {}) {
  const told = h("p", { class: "error", role: "alert" });
  const state = h("p", { class: "quiet", role: "status" });
  const closing = buttons.map(([value, name, style]) => h("button", { value, class: style }, name));
  const closed = new AbortController();
  const onSubmit = async (event) => {
    event.preventDefault();
    const { value } = event.submitter;
    if (!value) return shown.close();
    disable(true);
    fill(told);
    try {
      await act(value, { tell: (text) => fill(state, text), signal: closed.signal });
      shown.close(value);
    } catch (error) {
      fill(state);
      fill(told, error.message);
      disable(false);
    }
  };
  const disable = (isBusy) => {
    for (const each of closing) each.disabled = isBusy && each.value !== "";
  };
  const shown = h("dialog", { "aria-label": title },
    h("form", { onSubmit }, h("h2", {}, title), content, state, told,
      h("p", { class: "buttons" }, closing)));
  document.body.append(shown);
  shown.showModal();
  return new Promise((resolve) => {
    shown.addEventListener("close", () => {
      closed.abort();
      shown.remove();
      resolve(shown.returnValue);
    });
  });
}

// A button that asks before it acts. of: the name of the thing. about: what will happen, in
// paragraphs. choices: [title, act, class]. The page is shown anew afterwards.
export function action(title, of, about, ...choices) {
  const buttons = choices.map(([name, , style = "danger"], at) => [String(at), name, style]);
  const onClick = async () => {
    const act = (at, told) => choices[at][1](told);
    const paragraphs = about.map((each) => h("p", {}, each));
    if (await dialog(`${title} ${of}?`, paragraphs, [["", "Cancel"], ...buttons], act)) again();
  };
  return h("button", { type: "button", "aria-label": `${title} ${of}`, onClick }, title);
}

// A button that asks before it deletes a document. next: the place that is shown then.
export function deletion(link, about, next) {
  return action("Delete", nameOf(link), [about], ["Delete", async ({ signal }) => {
    await ask("DELETE", encoded(link));
    if (!signal.aborted) history.replaceState(null, "", next);
  }]);
}
