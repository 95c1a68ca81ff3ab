/**
 * The phone beside the form: the messages that the console provider printed, fetched each second while the page is visible.
 * The code in a message is a button that fills it in.
 */
import { element } from "./elements.ts";

const pollMs = 1_000;
/** As many as the server keeps. */
const messagesMax = 50;

/** The state of the inbox: open; SMS are really sent; or others could read along. */
const closed: ReadonlyMap<string, string> = new Map([
  ["sent", "There is no inbox here: this server sends real messages. Look at your phone."],
  [
    "exposed",
    "There is no inbox here: this server can be reached from other machines. Its terminal prints the messages.",
  ],
]);

interface Message {
  readonly number: number;
  readonly to: string;
  readonly text: string;
  readonly time: string;
}

/** Shows the inbox, which needs the token; `onCode` is called with the code that was clicked. Returns what fetches at once. */
export function showInbox(state: string, token: string, onCode: (code: string) => void): () => void {
  const list = element("messages", HTMLOListElement);
  const log = element("log", HTMLDivElement);
  const note = element("inbox-note", HTMLParagraphElement);
  const why = closed.get(state);
  if (why !== undefined) {
    note.textContent = why;
    return () => {};
  }
  const whenEmpty = note.textContent ?? "";
  let latest = 0;

  function show({ number, to, text, time }: Message): HTMLLIElement {
    const item = document.createElement("li");
    item.value = number;
    const head = document.createElement("p");
    head.className = "to";
    const when = document.createElement("time");
    when.dateTime = time;
    when.textContent = new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    head.append(`To ${to} · `, when);
    const bubble = document.createElement("p");
    bubble.className = "bubble";
    const [code] = /(?<!\d)\d{6,10}(?!\d)/.exec(text) ?? [];
    const [before = "", ...after] = code === undefined ? [text] : text.split(code);
    bubble.append(before);
    if (code !== undefined) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = code;
      button.setAttribute("aria-label", `Fill in the code ${code}`);
      button.addEventListener("click", () => onCode(code));
      bubble.append(button, after.join(code));
    }
    item.append(head, bubble);
    return item;
  }

  async function ask(): Promise<void> {
    try {
      const answer = await fetch(`/demo/inbox?since=${latest}`, { headers: { "x-demo-token": token } });
      if (!answer.ok) throw new Error("refused");
      const answered = (await answer.json()) as { latest: number; messages: Message[] };
      if (answered.latest < latest) {
        // The server was started again and counts from 1: earlier messages are gone.
        list.replaceChildren();
        latest = 0;
        return;
      }
      latest = answered.latest;
      // The newest is the one that is looked for.
      list.prepend(...answered.messages.map(show).toReversed());
      while (list.childElementCount > messagesMax) list.lastElementChild?.remove();
      if (answered.messages.length > 0) log.scrollTop = 0;
      note.textContent = whenEmpty;
      note.hidden = list.childElementCount > 0;
    } catch {
      note.textContent = "The inbox cannot be reached. Is the server running?";
      note.hidden = false;
    }
  }

  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsking = false;
  /** Fetches, again and again while the page is visible. */
  function poll(): void {
    clearTimeout(timer);
    if (isAsking || document.visibilityState === "hidden") return;
    isAsking = true;
    void ask().finally(() => {
      isAsking = false;
      timer = setTimeout(poll, pollMs);
    });
  }

  document.addEventListener("visibilitychange", poll);
  poll();
  return poll;
}
