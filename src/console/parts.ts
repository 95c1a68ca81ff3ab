/**
 * The parts that pages are made of: what is loaded, forms, buttons that ask first.
 */
import { isGivenUp, sentenceOf, SignedOut } from "./api.ts";
import { append, make, uniqueId, type Child } from "./dom.ts";
import type { PageContext } from "./page.ts";

/** Before that, nothing is said of loading: most answers are there sooner. */
const patienceMs = 200;

/**
 * Fills a place with what is asked for: says that it loads, and, should that fail, why, with a button that tries again. A
 * later call for the same place gives this one up. Resolves once it is shown or given up.
 */
export async function load<T>(
  into: HTMLElement,
  context: Pick<PageContext, "left" | "fail">,
  ask: (signal: AbortSignal) => Promise<T>,
  show: (answer: T) => readonly Child[] | Child,
): Promise<void> {
  underWay.get(into)?.abort();
  const own = new AbortController();
  underWay.set(into, own);
  const signal = AbortSignal.any([own.signal, context.left]);
  into.setAttribute("aria-busy", "true");
  const patience = setTimeout(() => {
    if (into.childElementCount === 0) into.append(make("p", { class: "loading" }, "Loading…"));
  }, patienceMs);
  try {
    const answer = await ask(signal);
    if (signal.aborted) return;
    const refocus = focusIn(into);
    into.replaceChildren();
    append(into, [show(answer)]);
    refocus();
  } catch (failure) {
    if (signal.aborted || isGivenUp(failure)) return;
    try {
      const again = make("button", { attributes: { type: "button" } }, "Try again");
      again.addEventListener("click", () => void load(into, context, ask, show));
      into.replaceChildren(
        make("div", { class: "trouble", attributes: { role: "alert" } }, make("p", {}, sentenceOf(failure)), again),
      );
    } catch (ended) {
      context.fail(ended);
    }
  } finally {
    clearTimeout(patience);
    if (!signal.aborted) into.removeAttribute("aria-busy");
  }
}

/** Remembers what has the focus in a place that is filled anew, and gives it to what stands there in its stead. */
function focusIn(place: HTMLElement): () => void {
  const labelOf = (element: Element) => element.getAttribute("aria-label") ?? element.textContent;
  const controls = () => [...place.querySelectorAll<HTMLElement>("button, a, summary, [tabindex]")];
  const held = controls().find((each) => each === document.activeElement);
  if (held === undefined) return () => {};
  const alike = () => controls().filter((each) => labelOf(each) === labelOf(held));
  const which = alike().indexOf(held);
  return () => alike()[which]?.focus();
}

const underWay = new WeakMap<HTMLElement, AbortController>();

/** Buttons to the first page and the next, where there are such; a page is shown by its token. */
export function pager(token: string, next: string, showPage: (token: string) => void): HTMLElement {
  return make(
    "div",
    { class: "buttons" },
    token !== "" && button("First page", () => showPage("")),
    next !== "" && button("Next page", () => showPage(next)),
  );
}

/** Facts, each with its name. */
export function facts(named: readonly (readonly [name: string, value: Child])[]): HTMLElement {
  return make(
    "dl",
    { class: "facts" },
    named.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
  );
}

/** A part of a page under a heading, and the place that it is filled at. */
export function section(
  title: string,
  ...beside: readonly Child[]
): { readonly part: HTMLElement; readonly body: HTMLElement } {
  const id = uniqueId("part");
  const body = make("div", {});
  const part = make(
    "section",
    { class: "card", attributes: { "aria-labelledby": id } },
    make("div", { class: "head" }, make("h2", { attributes: { id } }, title), make("div", { class: "tools" }, beside)),
    body,
  );
  return { part, body };
}

/** A word with a colour of its own; the word alone says it too. */
export function badge(text: string, tone: "good" | "bad" | "warn" | "plain" = "plain"): HTMLElement {
  return make("span", { class: `badge ${tone}` }, text);
}

export function button(text: string, onClick: () => void, classes?: string): HTMLButtonElement {
  return make("button", { class: classes, attributes: { type: "button" }, on: { click: onClick } }, text);
}

export interface Field {
  readonly name: string;
  readonly label: string;
  /** `lines` is a text of several. */
  readonly type?: "text" | "tel" | "search" | "url" | "number" | "datetime-local" | "checkbox" | "lines";
  /** Makes it a choice: values with what stands for each. */
  readonly options?: readonly (readonly [value: string, text: string])[];
  readonly value?: string;
  readonly hint?: string;
  readonly isRequired?: boolean;
}

/** A field with its label. */
export function field(given: Field): HTMLElement {
  const { name, label, type = "text", options, value, hint, isRequired } = given;
  const id = uniqueId(name);
  const hintId = hint === undefined ? undefined : `${id}-hint`;
  const common = { id, name, required: isRequired === true, "aria-describedby": hintId };
  const control =
    type === "lines"
      ? make("textarea", { attributes: { ...common, rows: 12, spellcheck: "false" } }, value)
      : options === undefined
        ? make("input", {
            attributes: {
              ...common,
              type,
              ...(type === "checkbox" ? { checked: value === "on" } : { value }),
              autocomplete: "off",
              spellcheck: "false",
            },
          })
        : make(
            "select",
            { attributes: common },
            options.map(([each, text]) =>
              make("option", { attributes: { value: each, selected: each === value } }, text),
            ),
          );
  return make(
    "div",
    { class: type === "checkbox" ? "field tick" : "field" },
    make("label", { attributes: { for: id } }, label),
    control,
    hint !== undefined && make("p", { class: "hint", attributes: { id: hintId } }, hint),
  );
}

/** The values of a form by name, without spaces around them. A tick is "on" or "". */
export function valuesOf(form: HTMLFormElement): Readonly<Record<string, string>> {
  const values: Record<string, string> = {};
  for (const control of form.elements) {
    if (control instanceof HTMLInputElement && control.type === "checkbox")
      values[control.name] = control.checked ? "on" : "";
    else if (
      control instanceof HTMLInputElement ||
      control instanceof HTMLSelectElement ||
      control instanceof HTMLTextAreaElement
    ) {
      values[control.name] = control.value.trim();
    }
  }
  return values;
}

/** Fields in a row that are sent together, as a search is. */
export function filters(
  label: string,
  fields: readonly Field[],
  submitText: string,
  onSubmit: (values: Readonly<Record<string, string>>) => void,
): HTMLFormElement {
  const form = make(
    "form",
    { class: "filters", attributes: { "aria-label": label } },
    fields.map(field),
    make("button", { class: "primary", attributes: { type: "submit" } }, submitText),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onSubmit(valuesOf(form));
  });
  return form;
}

/** Does something that may fail, at the press of a button, which is disabled meanwhile; says how it failed. */
export async function attempt(
  context: Pick<PageContext, "say" | "fail" | "left">,
  pressed: HTMLButtonElement,
  act: () => Promise<void>,
): Promise<void> {
  pressed.disabled = true;
  try {
    await act();
  } catch (failure) {
    if (isGivenUp(failure)) return;
    try {
      context.say(sentenceOf(failure));
    } catch (ended) {
      context.fail(ended);
    }
  } finally {
    pressed.disabled = false;
  }
}

export { SignedOut };
