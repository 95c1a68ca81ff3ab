/**
 * How the form looks unless the web page says otherwise, by the properties `--otp-…` and the parts. It is handed over as a sheet and
 * never written into the document, so that a strict policy of the web page's needs no exception.
 */

export const style = `
:host {
  --accent: var(--otp-accent, light-dark(#0b5cad, #84bcff));
  --accent-strong: var(--otp-accent-strong, light-dark(#084a8c, #a9d0ff));
  --on-accent: var(--otp-on-accent, light-dark(#ffffff, #0b1826));
  --field: var(--otp-field, light-dark(#ffffff, #191f27));
  --text: var(--otp-text, light-dark(#18202b, #e9edf2));
  --soft: var(--otp-soft, light-dark(#525d6b, #a6b0bd));
  --line: var(--otp-line, light-dark(#dbe1e8, #2c343f));
  --edge: var(--otp-edge, light-dark(#7a8696, #738092));
  --wrong: var(--otp-wrong, light-dark(#b3261e, #ff9d94));
  --wrong-ground: var(--otp-wrong-ground, light-dark(#fdf0ef, #33201f));
  --right: var(--otp-right, light-dark(#1a6e3b, #74d398));
  --radius: var(--otp-radius, 0.625rem);
  display: block;
  color: var(--text);
  font-family: var(--otp-font, inherit);
  line-height: 1.5;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
h2, p, ol { margin: 0; padding: 0; }
h2 { font-size: 1.125em; line-height: 1.4; }
button, input, select { font: inherit; }
button { cursor: pointer; }
label { display: block; margin-bottom: 0.375em; font-weight: 600; }
#code-form { margin-top: 1.25em; }
.steps { display: flex; gap: 0.75em; margin-bottom: 1.5em; list-style: none; }
.steps li {
  flex: 1; padding-top: 0.5em; border-top: 3px solid var(--line); color: var(--soft); font-size: 0.8125em;
}
.steps .past { border-color: var(--accent); }
.steps [aria-current] { border-color: var(--accent); color: var(--text); font-weight: 600; }
.number { display: flex; flex-wrap: wrap; gap: 0.5em; }
#phone, #country {
  min-width: 0; padding: 0.75em 0.875em; border: 1px solid var(--edge); border-radius: var(--radius);
  background: var(--field); color: inherit; font-size: 1.0625em;
}
#country { flex: 1 1 8em; width: 8em; text-overflow: ellipsis; }
.typed { display: flex; flex: 3 1 12em; align-items: center; gap: 0.5em; }
#calling-code { color: var(--soft); font-variant-numeric: tabular-nums; }
#phone { flex: 1; width: 9em; }
#phone:focus-visible, #country:focus-visible { outline-offset: 0; border-color: transparent; }
#phone[aria-invalid] { border-color: var(--wrong); }
.hint { margin-top: 0.375em; color: var(--soft); font-size: 0.9375em; }
.error:not(:empty) {
  margin-top: 0.75em; padding: 0.625em 0.875em; border-left: 3px solid var(--wrong); border-radius: 0.375em;
  background: var(--wrong-ground); color: var(--wrong); font-size: 0.9375em;
}
::slotted([slot="bot-check"]) { display: block; margin-top: 1em; }
.primary {
  width: 100%; margin-top: 1.25em; padding: 0.75em 1em; border: 1px solid transparent; border-radius: var(--radius);
  background: var(--accent); color: var(--on-accent); font-weight: 600; transition: background 0.15s;
}
.primary:hover { background: var(--accent-strong); }
[aria-busy="true"] { cursor: progress; opacity: 0.75; }
.link {
  padding: 0; border: 0; background: none; color: var(--accent); font-weight: 600; text-decoration: underline;
  text-underline-offset: 0.2em;
}
.link[aria-disabled="true"] { color: var(--soft); font-weight: 400; text-decoration: none; cursor: default; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.code { position: relative; }
.boxes { display: grid; grid-template-columns: repeat(var(--digits, 6), minmax(0, 1fr)); gap: 0.5em; }
.boxes span {
  display: grid; place-items: center; height: 2.333em; border: 1px solid var(--edge); border-radius: var(--radius);
  background: var(--field); font-size: 1.5em; font-weight: 600; font-variant-numeric: tabular-nums;
}
.boxes .current { outline: 3px solid var(--accent); border-color: transparent; }
.code:has([aria-invalid]) .boxes span { border-color: var(--wrong); }
.code:has(:disabled) .boxes { opacity: 0.45; }
#code {
  position: absolute; inset: 0; width: 100%; padding: 0; border: 0; outline: 0; background: none; color: transparent;
  caret-color: transparent; font: 1.5em ui-monospace, monospace;
}
#code::selection { background: transparent; }
.waits {
  display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0.5em 1.5em; margin-top: 1.25em;
  padding-top: 1em; border-top: 1px solid var(--line); color: var(--soft); font-size: 0.9375em;
}
.waits .hint { margin: 0; font-size: 1em; }
.waits .link + .link { margin-inline-start: 1em; }
.digits { font-variant-numeric: tabular-nums; }
.tick {
  display: inline-grid; place-items: center; width: 1.75rem; height: 1.75rem; margin-inline-end: 0.625rem;
  border-radius: 50%; background: var(--right); vertical-align: bottom;
}
.tick::after {
  width: 0.375rem; height: 0.75rem; margin-top: -0.2rem; border: solid var(--field); border-width: 0 2.5px 2.5px 0;
  transform: rotate(45deg); content: "";
}
.unseen {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;
}
/* Where the system decides on colours the field cannot be transparent, so it stands for itself, and buttons have edges. */
@media (forced-colors: active) {
  .boxes { display: none; }
  #code { position: static; height: 3.5rem; border: 1px solid; letter-spacing: 0.5em; }
  #code:focus { outline: 3px solid; }
  .primary { border-color: ButtonText; }
}
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
`;
