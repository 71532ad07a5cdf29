// The inside of a line of Markdown: emphasis, code, links, addresses.
//
// Same rules as in markdown.js: nodes only, three schemes only, every scan bounded.

import { make } from "./dom.js";

export const DEPTH_MOST = 16;
const SCHEMES = new Set(["http:", "https:", "mailto:"]);

export function inline(text, parent, depth) {
  const none = new Set(); // marks that close nowhere in this text: looked for once, not again
  let from = 0;
  let at = 0;
  const flush = () => {
    if (at > from) words(text.slice(from, at), parent);
  };
  while (at < text.length) {
    const found = depth < DEPTH_MOST ? span(text, at, none, depth) : null;
    if (found) {
      flush();
      parent.append(found.node);
      at = from = found.end;
    } else {
      at += 1;
    }
  }
  flush();
}

// The span that begins exactly at `at`, if one does: { node, end }.
function span(text, at, none, depth) {
  switch (text[at]) {
    case "\\":
      return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { node: text[at + 1], end: at + 2 } : null;
    case "`":
      return codeSpan(text, at);
    case "[":
      return link(text, at, at, depth);
    case "!":
      return text[at + 1] === "[" ? link(text, at, at + 1, depth) : null;
    case "<":
      return angled(text, at);
    case "h":
      return address(text, at);
    case "*":
    case "_":
    case "~":
      return emphasis(text, at, none, depth);
    default:
      return null;
  }
}

function codeSpan(text, at) {
  const marks = /^`+/.exec(text.slice(at, at + 20))[0];
  let close = text.indexOf(marks, at + marks.length);
  while (close >= 0 && (text[close + marks.length] === "`" || text[close - 1] === "`")) {
    close = text.indexOf(marks, close + marks.length + 1);
  }
  if (close < 0) return { node: marks, end: at + marks.length };
  let body = text.slice(at + marks.length, close).replaceAll("\n", " ");
  if (/^ .*[^ ].* $/.test(body)) body = body.slice(1, -1);
  return { node: make("code", {}, body), end: close + marks.length };
}

function link(text, at, open, depth) {
  const close = bracket(text, open, "[", "]");
  if (close < 0 || text[close + 1] !== "(") return null;
  const end = bracket(text, close + 1, "(", ")");
  if (end < 0) return null;
  const target = text.slice(close + 2, end).trim().replace(/\s+["'(].*$/s, "").replace(/^<(.*)>$/, "$1");
  const node = anchor(target);
  if (node === null) return null;
  const label = text.slice(open + 1, close);
  if (open > at) node.textContent = label || "image";
  else inline(label, node, Math.max(depth + 1, DEPTH_MOST - 2));
  for (const inner of node.querySelectorAll("a")) inner.replaceWith(...inner.childNodes);
  return { node, end: end + 1 };
}

function bracket(text, at, open, close) {
  let level = 0;
  const end = Math.min(text.length, at + 2048);
  for (let number = at; number < end; number += 1) {
    if (text[number] === "\\") number += 1;
    else if (text[number] === open) level += 1;
    else if (text[number] === close && --level === 0) return number;
  }
  return -1;
}

function angled(text, at) {
  const found = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(text.slice(at, at + 2048));
  const node = found && anchor(found[1]);
  return node ? (node.append(found[1]), { node, end: at + found[0].length }) : null;
}

function address(text, at) {
  if (!/^https?:\/\//.test(text.slice(at, at + 8)) || /\w/.test(text[at - 1] ?? "")) return null;
  let url = /^[^\s<>"`]+/.exec(text.slice(at, at + 2048))[0].replace(/[.,:;!?*_~'"]+$/, "");
  while (url.endsWith(")") && url.split(")").length > url.split("(").length) url = url.slice(0, -1);
  const node = anchor(url);
  return node ? (node.append(url), { node, end: at + url.length }) : null;
}

function anchor(target) {
  try {
    const url = new URL(target);
    if (!SCHEMES.has(url.protocol)) return null;
    return make("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" });
  } catch {
    return null;
  }
}

const TAGS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };

function emphasis(text, at, none, depth) {
  const twice = text[at + 1] === text[at];
  const mark = twice ? text[at] + text[at] : text[at];
  const skip = { node: mark, end: at + mark.length };
  const start = at + mark.length;
  if (!(mark in TAGS) || none.has(mark) || /^\s?$/.test(text[start] ?? "")) return skip;
  if (mark[0] === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) return skip;
  const close = closing(text, start, mark);
  if (close < 0) {
    none.add(mark);
    return skip;
  }
  const node = make(TAGS[mark]);
  inline(text.slice(start, close), node, depth + 1);
  return { node, end: close + mark.length };
}

function closing(text, start, mark) {
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "`") at = codeSpan(text, at).end - 1;
    else if (text.startsWith(mark, at)) {
      const run = /^(\*+|_+|~+)/.exec(text.slice(at, at + 8))[0].length;
      const inWord = mark[0] === "_" && /[\p{L}\p{N}]/u.test(text[at + run] ?? "");
      const fits = mark.length === run || run > 2;
      if (at > start && fits && !inWord && !/\s/.test(text[at - 1])) return at + (mark.length === 2 ? run - 2 : 0);
      at += run - 1;
    }
  }
  return -1;
}

function words(text, parent) {
  text.split("\n").forEach((line, number) => {
    if (number > 0) parent.append(make("br"));
    if (line) parent.append(line);
  });
}
