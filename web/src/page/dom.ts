// Elements. Text is only ever set as text: nothing of a trace is markup.

type Child = Node | string | null;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function button(text: string, title: string, click: (event: MouseEvent) => void, attributes: Record<string, string | boolean> = {}): HTMLButtonElement {
  const element = el("button", { type: "button", title, ...attributes }, text);
  element.addEventListener("click", click);
  return element;
}

/** An element of the page that is always there. */
export function by<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** Puts a text on the clipboard; where that is refused, selects it in the page. */
export function copy(text: string, shown: Node | null): void {
  const select = (): void => {
    if (shown) getSelection()?.selectAllChildren(shown);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).catch(select);
  else select();
}

/** Offers a text as a file. */
export function save(name: string, type: string, text: string): void {
  const link = el("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
