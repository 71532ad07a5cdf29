// Markdown as chat bots write it, drawn as DOM nodes.
//
// Text from outside never becomes markup: nodes are made one by one and filled with textContent,
// and there is no innerHTML anywhere. Links go to http, https and mailto only; an image becomes a
// link, so that reading a message calls nobody. What is not understood stays as it was written.
// Every scan is bounded, so that a hostile text costs milliseconds, not minutes.

import { make } from "./dom.js";
import { DEPTH_MOST, inline } from "./inline.js";

// None of these backtracks over the same run of characters twice.
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:(\s+)(.*)|)$/;
const TABLE_RULE = /^\|?\s*:?-+:?(\s*\|\s*:?-+:?)*\s*\|?$/;

export function render(text) {
  return blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

function blocks(lines, depth) {
  const out = document.createDocumentFragment();
  if (depth > DEPTH_MOST) {
    out.append(make("p", {}, lines.join("\n")));
    return out;
  }
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === "") at += 1;
    else at = block(lines, at, out, depth);
  }
  return out;
}

// Draw the block that begins at line `at`; returns the line after it.
function block(lines, at, out, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence, out);
  const heading = HEADING.exec(line);
  if (heading) {
    // The page's own headings are h1 and h2.
    const node = make(`h${Math.min(heading[1].length + 2, 6)}`);
    inline(heading[2], node, depth);
    out.append(node);
    return at + 1;
  }
  if (RULE.test(line)) {
    out.append(make("hr"));
    return at + 1;
  }
  if (QUOTE.test(line)) {
    const end = while_(lines, at, (text) => QUOTE.test(text));
    const inner = lines.slice(at, end).map((text) => text.replace(QUOTE, ""));
    out.append(make("blockquote", {}, blocks(inner, depth + 1)));
    return end;
  }
  if (ITEM.test(line)) return list(lines, at, out, depth);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && TABLE_RULE.test(lines[at + 1].trim())) {
    return table(lines, at, out, depth);
  }
  const end = Math.max(at + 1, while_(lines, at, (text, number) => number === at || !interrupts(text)));
  const node = make("p");
  inline(lines.slice(at, end).map((text) => text.trim()).join("\n"), node, depth);
  out.append(node);
  return end;
}

function while_(lines, at, belongs) {
  let end = at;
  while (end < lines.length && lines[end].trim() !== "" && belongs(lines[end], end)) end += 1;
  return end;
}

function interrupts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || /^\s*([-*+]|1[.)])\s+\S/.test(line);
}

function code(lines, at, [, indent, marks, info], out) {
  const close = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end += 1;
  const text = lines.slice(at + 1, end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line)).join("\n");
  const language = info.trim().split(/\s+/)[0].slice(0, 30);
  const copy = make("button", { type: "button", className: "copy" }, "Copy");
  copy.addEventListener("click", () => copied(copy, text));
  const body = make("pre", { tabIndex: 0 }, make("code", {}, text));
  body.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  out.append(make("div", { className: "code" }, make("div", { className: "code-head" }, make("span", {}, language || "code"), copy), body));
  return end + 1;
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not a secure address (plain http on a local network): the old way.
    const box = make("textarea", { value: text, className: "unseen" });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1600);
}

function list(lines, at, out, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const node = make(ordered ? "ol" : "ul");
  if (ordered && Number.parseInt(mark, 10) !== 1) node.start = Number.parseInt(mark, 10);
  let number = at;
  while (number < lines.length) {
    const item = ITEM.exec(lines[number]);
    if (!item || item[1].length > indent.length + 3 || item[1].length < indent.length || /\d/.test(item[2]) !== ordered) break;
    if (RULE.test(lines[number])) break;
    const inset = item[1].length + item[2].length + Math.min((item[3] ?? " ").length, 4);
    const inner = [item[4] ?? ""];
    number += 1;
    while (number < lines.length) {
      const line = lines[number];
      const lead = line.length - line.trimStart().length;
      if (line.trim() === "") {
        const next = lines[number + 1] ?? "";
        if (next.trim() === "" || next.length - next.trimStart().length <= item[1].length) break;
      } else if (lead <= item[1].length && (lead < 1 || ITEM.test(line)) && (ITEM.test(line) || interrupts(line))) {
        break;
      }
      inner.push(line.slice(Math.min(lead, inset)));
      number += 1;
    }
    const body = blocks(inner, depth + 1);
    // A tight item is one line of text, not a paragraph.
    const first = body.firstChild;
    if (first && first.nodeName === "P") first.replaceWith(...first.childNodes);
    node.append(make("li", {}, body));
    while (number < lines.length && lines[number].trim() === "" && ITEM.test(lines[number + 1] ?? "")) number += 1;
  }
  out.append(node);
  return Math.max(number, at + 1);
}

function table(lines, at, out, depth) {
  const end = while_(lines, at, (text, number) => number <= at + 1 || text.includes("|"));
  const sides = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : ""));
  const row = (line, tag) => {
    const texts = cells(line);
    return make("tr", {}, ...sides.map((side, column) => {
      const cell = make(tag);
      if (side) cell.className = side;
      inline(texts[column] ?? "", cell, depth + 1);
      return cell;
    }));
  };
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const node = make("table", {}, make("thead", {}, row(lines[at], "th")), make("tbody", {}, ...body));
  const scroll = make("div", { className: "table", tabIndex: 0 }, node);
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Table");
  out.append(scroll);
  return end;
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
