/**
 * Dialogs: one that asks before something is done, with fields where it needs some, and one that shows what is told once.
 */
import { isGivenUp, sentenceOf } from "./api.ts";
import { make, uniqueId, type Child } from "./dom.ts";
import type { PageContext } from "./page.ts";
import { button, field, valuesOf, type Field } from "./parts.ts";

export interface Question {
  readonly title: string;
  /** What will happen, in a sentence or two. */
  readonly text: string;
  /** What the button that does it says. */
  readonly doIt: string;
  /** True for what cannot be undone, or ends something that works. */
  readonly isDanger?: boolean;
  readonly fields?: readonly Field[];
  /** Does it. What fails is said in the dialog, which stays. */
  readonly act: (values: Readonly<Record<string, string>>) => Promise<void>;
}

/** Asks, and does it if that is what is wanted. */
export function ask(
  { fail }: Pick<PageContext, "fail">,
  { title, text, doIt, isDanger, fields = [], act }: Question,
): void {
  const trouble = make("p", { class: "error", attributes: { role: "alert" } });
  const classes = isDanger === true ? "primary danger" : "primary";
  const confirm = make("button", { class: classes, attributes: { type: "submit" } }, doIt);
  const form = make("form", {}, make("p", {}, text), fields.map(field), trouble);
  const dialog = openUntilLeft(title, form);
  form.append(
    make(
      "div",
      { class: "buttons" },
      button("Cancel", () => dialog.close()),
      confirm,
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    confirm.disabled = true;
    trouble.textContent = "";
    act(valuesOf(form))
      .then(() => dialog.close())
      .catch((failure: unknown) => {
        if (isGivenUp(failure)) return;
        trouble.textContent = sentenceOf(failure);
      })
      .catch((ended: unknown) => {
        dialog.close();
        fail(ended);
      })
      .finally(() => {
        confirm.disabled = false;
      });
  });
}

/** Shows what is told once, such as a key. It stays until it is closed, whatever page is shown. */
export function showOnce(title: string, text: string, secret: string): void {
  const copied = make("span", { class: "hint", attributes: { role: "status" } });
  const dialog = open(
    title,
    make("p", {}, text),
    make("pre", { class: "secret", attributes: { tabindex: 0 } }, secret),
    copied,
    make(
      "div",
      { class: "buttons" },
      button("Copy", () => {
        void navigator.clipboard.writeText(secret).then(
          () => (copied.textContent = "It is in the clipboard."),
          () => (copied.textContent = "The browser did not let it be copied. Select it by hand."),
        );
      }),
      button("I have stored it", () => dialog.close(), "primary"),
    ),
  );
}

/** Shows something and waits for it to be closed. */
export function show(title: string, ...children: readonly Child[]): void {
  const dialog = openUntilLeft(
    title,
    ...children,
    make(
      "div",
      { class: "buttons" },
      button("Close", () => dialog.close(), "primary"),
    ),
  );
}

/** Opens what is of this page alone: whoever goes back in the browser leaves it too. */
function openUntilLeft(title: string, ...children: readonly Child[]): HTMLDialogElement {
  const dialog = open(title, ...children);
  const closed = new AbortController();
  // The browser tells of a change later: one that was made before the dialog opened does not leave its page.
  const page = location.hash;
  addEventListener("hashchange", () => location.hash !== page && dialog.close(), { signal: closed.signal });
  dialog.addEventListener("close", () => closed.abort());
  return dialog;
}

/** What is in it is gone once it is closed: it may be a secret. */
function open(title: string, ...children: readonly Child[]): HTMLDialogElement {
  const id = uniqueId("dialog");
  const dialog = make(
    "dialog",
    { attributes: { "aria-labelledby": id } },
    make("h2", { attributes: { id } }, title),
    ...children,
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
