// A file of an answer: a picture is shown, a sound or a film can be played, everything else can be
// saved. Files come from the gateway's own server, under links that end; what is gone says so.

import { drawing, make } from "./dom.js";

// Links are relative to the root of the gateway; the page knows its own folder, p/PROFILE/.
const root = new URL("../../", new URL(document.body.dataset.base, location.href));
const UNITS = ["bytes", "kB", "MB", "GB"];
const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

// The node for an attachment. `words`: what stands beside it, which describes a picture best.
export function shown(attachment, words) {
  const url = new URL(attachment.url, root);
  const node = make("div", { className: "attachment" });
  node.dataset.kind = attachment.kind;
  node.append(...(views[attachment.kind] ?? views.file)(attachment, url.href, words));
  return node;
}

const views = {
  image(attachment, url, words) {
    const picture = make("img", { src: url, alt: words.trim() || attachment.name, decoding: "async" });
    const link = make("a", { className: "picture", href: url, target: "_blank", rel: "noopener", title: attachment.name }, picture);
    picture.addEventListener("error", () => link.replaceWith(gone(attachment)));
    return [link];
  },

  voice(attachment, url) {
    return played("audio", attachment, url, attachment.kind === "voice" ? "Voice message" : attachment.name);
  },

  audio(attachment, url) {
    return views.voice(attachment, url);
  },

  video(attachment, url) {
    return played("video", attachment, url, attachment.name);
  },

  file(attachment, url) {
    return [saved(attachment, url)];
  },
};

function played(tag, attachment, url, label) {
  const player = make(tag, { controls: true, preload: "metadata", src: url });
  player.setAttribute("aria-label", label);
  player.addEventListener("error", () => player.replaceWith(gone(attachment)), { once: true });
  return [player, saved(attachment, url)];
}

function saved(attachment, url) {
  const link = make("a", { className: "file", href: url, download: attachment.name }, drawing("file"), ...described(attachment));
  link.setAttribute("aria-label", `Save ${attachment.name}, ${size(attachment.size)}`);
  return link;
}

function gone(attachment) {
  const note = make("span", { className: "note" }, "cannot be shown (any more)");
  return make("span", { className: "file gone" }, drawing("alert"), make("span", { className: "name" }, attachment.name), note);
}

function described(attachment) {
  return [make("span", { className: "name" }, attachment.name), make("span", { className: "note" }, size(attachment.size))];
}

function size(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${number.format(value)} ${UNITS[unit]}`;
}
