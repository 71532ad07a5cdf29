// Making nodes. Text is always text: nothing here reads markup.

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

// A drawing from the symbols in index.html; decoration only.
export function drawing(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#draw-${name}`);
  svg.append(use);
  return svg;
}
