/** Makes a field as high as its text; the style bounds it. */
export function fitToText(field) {
  field.style.height = "auto";
  const border = field.offsetHeight - field.clientHeight;
  field.style.height = `${field.scrollHeight + border}px`;
}
