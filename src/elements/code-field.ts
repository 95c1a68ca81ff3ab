/**
 * The field for the code. It looks like one box for each digit and is one real input, laid over them: screen readers, autofill,
 * paste and the keyboard work as in any input.
 */

export interface CodeField {
  /** Empties the field, and makes it take that many digits. */
  open(length: number): void;
  /** No more digits are taken until it is opened again. */
  close(): void;
  clear(): void;
  focus(): void;
  /** Puts a code in, as if it had been typed. */
  fill(code: string): void;
  readonly value: string;
  readonly isFull: boolean;
}

/** Makes the field of `input` and `boxes`; `onFull` is called when its last digit has come in. */
export function createCodeField(input: HTMLInputElement, boxes: HTMLElement, onFull: () => void): CodeField {
  let length = 6;

  /** The digits that were typed or pasted; of a whole message the code, which is the run of digits that fits. */
  function digitsIn(text: string): string {
    const [run] =
      new RegExp(`(?<!\\d)\\d{${length}}(?!\\d)`).exec(text.replaceAll(/(?<=\d)[ \u00a0-]+(?=\d)/g, "")) ?? [];
    return (run ?? text.replaceAll(/\D/g, "")).slice(0, length);
  }

  function draw(): void {
    const isHere = input.matches(":focus") && !input.disabled;
    const at = Math.min(input.selectionStart ?? input.value.length, length - 1);
    for (const [i, box] of [...boxes.children].entries()) {
      box.textContent = input.value[i] ?? "";
      box.classList.toggle("current", isHere && i === at);
    }
  }

  function take(text: string): void {
    const digits = digitsIn(text);
    if (digits !== input.value) input.value = digits;
    draw();
    if (digits.length === length) onFull();
  }

  input.addEventListener("input", () => take(input.value));
  // Here and not by "input": maxlength would cut "123 456" before its blank could be dropped.
  input.addEventListener("paste", (event) => {
    event.preventDefault();
    const from = input.selectionStart ?? 0;
    const pasted = digitsIn(event.clipboardData?.getData("text") ?? "");
    const kept = [input.value.slice(0, from), input.value.slice(input.selectionEnd ?? from)];
    take(pasted.length === length ? pasted : kept.join(pasted));
  });
  for (const event of ["focus", "blur", "keyup", "select", "click"]) input.addEventListener(event, draw);

  return {
    open(digits) {
      length = digits;
      input.maxLength = digits;
      input.pattern = `[0-9]{${digits}}`;
      input.value = "";
      input.disabled = false;
      boxes.style.setProperty("--digits", `${digits}`);
      boxes.replaceChildren(
        ...Array.from({ length: digits }, () => {
          const box = document.createElement("span");
          box.part.add("box");
          return box;
        }),
      );
      draw();
    },
    close() {
      input.disabled = true;
      draw();
    },
    clear() {
      input.value = "";
      draw();
    },
    focus() {
      input.focus();
      draw();
    },
    fill(code) {
      if (!input.disabled) take(code);
    },
    get value() {
      return input.value;
    },
    get isFull() {
      return input.value.length === length;
    },
  };
}
