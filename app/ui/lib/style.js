// Styles of a page that is not always shown: `await styleSheet("memory")` before its first drawing.

const loaded = new Map();

/** Links `style/NAME.css`; promises that it holds. */
export function styleSheet(name) {
  if (!loaded.has(name)) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = `style/${name}.css`;
    loaded.set(name, new Promise((resolve, reject) => {
      link.onload = resolve;
      link.onerror = () => reject(new Error(`style/${name}.css is missing`));
    }));
    document.head.append(link);
  }
  return loaded.get(name);
}
