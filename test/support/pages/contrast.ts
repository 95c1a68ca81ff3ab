/**
 * The contrast of what a page shows, by the formula of WCAG 2.
 */
import type { Page } from "playwright-core";

/** Texts in sight whose contrast is below 4.5, with what it is. */
export function faintTexts(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    type Colour = [red: number, green: number, blue: number, alpha: number];
    const parse = (text: string): Colour => {
      const [red = 0, green = 0, blue = 0, alpha = 1] = (text.match(/[\d.]+/g) ?? []).map(Number);
      return [red, green, blue, alpha];
    };
    /** What an element is drawn in: its parent, its slot, or the element whose own tree it is in. */
    const around = (of: Element): Element | null => {
      const root = of.getRootNode();
      return of.assignedSlot ?? of.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
    };
    const backgroundOf = (of: Element | null): Colour => {
      if (of === null) return [255, 255, 255, 1];
      const colour = parse(getComputedStyle(of).backgroundColor);
      return colour[3] === 0 ? backgroundOf(around(of)) : colour;
    };
    const allIn = (root: ParentNode): Element[] =>
      [...root.querySelectorAll("*")].flatMap((one) => [one, ...(one.shadowRoot ? allIn(one.shadowRoot) : [])]);
    const luminance = ([red, green, blue]: Colour) => {
      const [r = 0, g = 0, b = 0] = [red, green, blue].map((of) => {
        const part = of / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return allIn(document.body).flatMap((one) => {
      const text = [...one.childNodes]
        .map((node) => (node.nodeType === Node.TEXT_NODE ? node.textContent : ""))
        .join("");
      if (text.trim() === "" || !one.checkVisibility() || one.closest(".unseen") !== null) return [];
      const [a, b] = [luminance(parse(getComputedStyle(one).color)), luminance(backgroundOf(one))].toSorted(
        (x, y) => y - x,
      );
      const ratio = ((a ?? 0) + 0.05) / ((b ?? 0) + 0.05);
      return ratio >= 4.5 ? [] : [`${text.trim()}: ${ratio.toFixed(2)}`];
    });
  });
}
