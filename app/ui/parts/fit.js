/** Makes a field as high as its text; the style bounds it. The page never becomes shorter meanwhile: it would scroll. */
export function fitToText(field) {
  const { style } = field;
  style.marginBottom = style.height;
  style.height = "auto";
  const border = field.offsetHeight - field.clientHeight;
  style.height = `${field.scrollHeight + border}px`;
  style.marginBottom = "";
}
