// The chat page: chats, the socket, and what both say to each other.
// The frames are described in docs/reference/web-protocol.md.

import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Conversation } from "./conversation.js";
import { Outbox } from "./outbox.js";
import { Reader } from "./reader.js";
import { Sidebar } from "./sidebar.js";

const CHARACTERS_MOST = 1_000_000;
const FRAME_BYTES_MOST = 4 * 1024 * 1024 - 1024;
const TYPING_MS = 10_000;
const TITLE_LENGTH = 48;
const HISTORY_MOST = 2000;
const NAME = /^[A-Za-z0-9_-]{1,64}$/;

const byId = (id) => document.getElementById(id);
const base = new URL(document.body.dataset.base, location.href);
const place = base.pathname;

const chats = new Map(); // id → { id, title, at, unread }
const views = new Map(); // id → Conversation
const outbox = new Outbox(place);
const sidebar = new Sidebar();
const reader = new Reader();
const composer = new Composer(say);
let current = "";
let turn = 0; // tells messages of the same millisecond apart
let unseen = 0; // parts that came while nobody looked

// ---------------------------------------------------------------------------------- chats

function freshId() {
  // randomUUID is missing on plain http beyond localhost.
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function view(chat) {
  if (!views.has(chat)) {
    const again = (text) => {
      composer.text = composer.text ? `${text}\n${composer.text}` : text;
      composer.focus();
      draw();
    };
    const fresh = new Conversation(chat, { again });
    for (const message of outbox.all()) if (message.chat === chat) fresh.say(message.id, message.text, message.at, "sending");
    views.set(chat, fresh);
  }
  return views.get(chat);
}

// Note that something happened in a chat. A chat is named after the first words in it.
function touch(chat, { title = "", at = 0, unread = 0 } = {}) {
  const known = chats.get(chat) ?? { id: chat, title: "", at: 0, unread: 0 };
  known.title = known.title || short(title);
  known.at = Math.max(known.at, at);
  known.unread += unread;
  chats.set(chat, known);
}

function short(text) {
  const line = text.trim().split("\n")[0].replace(/\s+/g, " ");
  return [...line].length > TITLE_LENGTH ? `${[...line].slice(0, TITLE_LENGTH - 1).join("").trimEnd()}…` : line;
}

function open(chat) {
  if (chat === current) return;
  if (current) {
    view(current).top = reader.place;
    if (view(current).empty) chats.delete(current);
  }
  composer.move(current, chat);
  current = chat;
  remember(chat);
  touch(chat);
  chats.get(chat).unread = 0;
  byId("log").replaceChildren(view(chat).node);
  connection?.send({ type: "open", chat, limit: view(chat).limit });
  draw();
  reader.go(view(chat).top);
  composer.focus();
}

function remember(chat) {
  try {
    localStorage.setItem(`angelia ${place} chat`, chat);
  } catch {
    // the address still says it
  }
  if (location.hash !== `#${chat}`) history.replaceState(null, "", `#${chat}`);
}

// The chat that the address names, or "".
function named() {
  const name = location.hash.slice(1);
  return NAME.test(name) ? name : "";
}

function lastChat() {
  if (named()) return named();
  let last = "";
  try {
    last = localStorage.getItem(`angelia ${place} chat`) ?? "";
  } catch {
    // no storage here
  }
  return NAME.test(last) ? last : freshId();
}

function startNew() {
  sidebar.drawer(false);
  if (!view(current).empty) location.hash = freshId();
  composer.focus();
}

function draw() {
  const shown = view(current);
  const waiting = connection?.up ? !shown.known : false;
  byId("empty").hidden = !shown.empty || waiting;
  byId("earlier").hidden = !shown.full || shown.limit >= HISTORY_MOST;
  byId("typing").hidden = shown.typing < Date.now();
  byId("typing-words").textContent = byId("typing").hidden ? "" : "A reply is being written";
  const listed = [...chats.values()].filter(({ id }) => id === current || chats.get(id).title || !views.get(id)?.empty);
  listed.sort((a, b) => (b.id === current && shown.empty) - (a.id === current && shown.empty) || b.at - a.at);
  sidebar.show(listed.map((chat) => ({ ...chat, title: chat.title || "New chat" })), current);
  const title = chats.get(current)?.title || "New chat";
  byId("title").textContent = title;
  const total = [...chats.values()].reduce((sum, chat) => sum + chat.unread, unseen);
  document.title = (total ? `(${total}) ` : "") + (shown.empty ? "" : `${title} · `) + document.body.dataset.title;
}

// ---------------------------------------------------------------------------------- out

// Returns what is wrong with the text, or "" if it is on its way.
function say(text) {
  if ([...text].length > CHARACTERS_MOST) return `A message has at most ${CHARACTERS_MOST.toLocaleString()} characters.`;
  const message = { chat: current, id: freshId(), text, at: Date.now(), turn: (turn += 1) };
  if (new TextEncoder().encode(JSON.stringify(asFrame(message))).length > FRAME_BYTES_MOST) return "This message is too large.";
  outbox.add(message);
  touch(current, { title: text, at: message.at });
  view(current).say(message.id, text, message.at, "sending");
  connection.send(asFrame(message));
  draw();
  reader.toEnd();
  return "";
}

function asFrame({ chat, id, text }) {
  return { type: "message", chat, id, text };
}

function resend(message) {
  connection.send(asFrame(message));
}

// ---------------------------------------------------------------------------------- in

const answers = {
  chats({ chats: listed }) {
    for (const { chat, title, at } of listed) touch(chat, { title, at });
    connection.send({ type: "watch", chats: [...chats.keys()].slice(0, 1000) });
  },

  history({ chat, entries, limit }) {
    const shown = view(chat);
    const earlier = shown.known && limit > shown.limit;
    const pending = outbox.all().filter((message) => message.chat === chat);
    const change = () => shown.history(entries, limit, pending);
    byId("log").setAttribute("aria-busy", "true");
    if (chat !== current) change();
    else if (earlier) reader.above(() => (change(), draw()));
    else reader.around(change);
    byId("log").removeAttribute("aria-busy");
    if (shown.firstWords) touch(chat, { title: shown.firstWords });
  },

  accepted({ chat, id, at }) {
    outbox.remove(id);
    views.get(chat)?.state(id, "delivered", "", at);
    touch(chat, { at });
  },

  refused({ id, reason }) {
    outbox.remove(id);
    for (const shown of views.values()) shown.state(id, "refused", reason);
  },

  retry({ id, after_s: seconds }) {
    setTimeout(() => {
      const message = outbox.all().find((waiting) => waiting.id === id);
      if (message) resend(message);
    }, seconds * 1000);
  },

  echo({ chat, id, text, at }) {
    touch(chat, { title: text, at });
    reader.around(() => view(chat).say(id, text, at, "delivered"));
  },

  part(frame) {
    const revision = Number(frame.key.split(".").at(-1)) || 0;
    const shown = view(frame.chat);
    shown.typing = 0;
    const fresh = reader.around(() => shown.part({ ...frame, revision }), frame.chat === current);
    // Only now is it shown. A part that came before is acknowledged again, and not shown again.
    connection.send({ type: "ack", key: frame.key });
    const away = frame.chat !== current;
    touch(frame.chat, { title: away && shown.firstWords === "" ? frame.text : "", at: frame.at, unread: fresh && away ? 1 : 0 });
    if (fresh && !away && document.hidden) unseen += 1;
  },

  typing({ chat, active }) {
    view(chat).typing = active ? Date.now() + TYPING_MS : 0;
    if (active) setTimeout(draw, TYPING_MS + 50);
    if (chat === current) reader.around(() => draw());
  },

  error({ reason, to }) {
    console.warn(`The gateway could not use a frame${to ? ` (${to})` : ""}: ${reason}`);
  },
};

// ---------------------------------------------------------------------------------- socket

let bannerTimer = 0;

function banner(text, after = 0) {
  clearTimeout(bannerTimer);
  const show = () => {
    byId("banner").textContent = text;
    byId("banner").hidden = text === "";
  };
  if (after) bannerTimer = setTimeout(show, after);
  else show();
}

let connection = null;

addEventListener("hashchange", () => {
  if (named()) open(named());
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && unseen) {
    unseen = 0;
    draw();
  }
});
byId("new").addEventListener("click", startNew);
byId("fresh").addEventListener("click", startNew);
byId("earlier").addEventListener("click", () => {
  connection.send({ type: "history", chat: current, limit: Math.min(view(current).limit * 4, HISTORY_MOST) });
});

for (const message of outbox.all()) touch(message.chat, { title: message.text, at: message.at });
open(lastChat());

const socketUrl = new URL("socket", base);
socketUrl.protocol = base.protocol === "https:" ? "wss:" : "ws:";
connection = new Connection(socketUrl.href, base.href, {
  open() {
    banner("");
    connection.send({ type: "hello", chat: current, limit: view(current).limit });
    for (const message of outbox.all()) resend(message);
  },
  frame(frame) {
    answers[frame.type]?.(frame);
    if (frame.type !== "typing") draw();
  },
  down() {
    banner("Reconnecting… what you write is kept and sent then.", 700);
    draw();
  },
  signedOut() {
    location.reload();
  },
});
