// The messages of one chat, as nodes.
//
// A reply is one article per delivery, and in it one section per part: however often a part comes,
// there is one section for it. It shows the newest revision it was given (the number at the end of
// its key). The history tells the order; what it does not know yet (messages on their way in, parts
// shown a moment ago) stands after it.

import { shown as attachmentShown } from "./attachment.js";
import { drawing, make } from "./dom.js";
import { render } from "./markdown.js";
import { day, moment, time } from "./when.js";

const MARKER = "♻";

export class Conversation {
  // on: { again(text) }: the person wants to write a refused message anew.
  constructor(chat, on) {
    this.chat = chat;
    this.on = on;
    this.node = make("div", { className: "messages" });
    this.items = new Map(); // key → item, in the order shown
    this.limit = 100;
    this.known = false; // whether the history was read
    this.full = false; // whether there may be earlier messages
    this.typing = 0;
    this.top = null; // where the reader was, null: at the end
  }

  get empty() {
    return ![...this.items.values()].some((item) => !item.node.hidden);
  }

  get firstWords() {
    for (const item of this.items.values()) if (item.role === "user") return item.text;
    return "";
  }

  // ------------------------------------------------------------------------------ a person's

  say(id, text, at, state) {
    let item = this.items.get(`user ${id}`);
    if (!item) {
      item = this.begin(`user ${id}`, "user", at);
      item.node.dataset.id = id;
      item.text = text;
      item.bubble.append(make("p", { className: "plain" }, text));
      item.node.append(item.foot);
    }
    this.state(id, state, "", at);
    return item;
  }

  state(id, state, reason = "", at = 0) {
    const item = this.items.get(`user ${id}`);
    if (!item || (item.node.dataset.state === "delivered" && state === "sending")) return;
    item.node.dataset.state = state;
    if (at) item.at = at;
    item.foot.replaceChildren(stamp(item.at));
    if (state === "sending") item.foot.append(make("span", { className: "state" }, "sending…"));
    if (state === "delivered") item.foot.append(make("span", { className: "state" }, drawing("tick"), "delivered"));
    if (state === "refused") {
      const again = make("button", { type: "button" }, "Write it again");
      again.addEventListener("click", () => {
        this.items.delete(`user ${id}`);
        item.node.remove();
        this.on.again(item.text);
      });
      item.foot.append(make("span", { className: "state" }, drawing("alert"), `not sent: ${reason}`), again);
    }
  }

  // ------------------------------------------------------------------------------ a reply

  // Show a part, or its newer revision. Returns whether something new is to be seen.
  part({ delivery, part, parts = 0, text, format, recovered, at, revision = 0, lost = "", attachment = null }) {
    const item = this.items.get(`reply ${delivery}`) ?? this.begin(`reply ${delivery}`, "bot", at);
    item.node.dataset.delivery = delivery;
    item.total = Math.max(item.total, parts);
    let shown = item.parts.get(part);
    if (shown && (shown.revision > revision || (shown.revision === revision && shown.lost === lost))) return false;
    const fresh = !shown;
    if (fresh) {
      shown = { node: make("section", { className: "part" }) };
      shown.node.dataset.part = part;
      item.parts.set(part, shown);
      const after = [...item.parts].filter(([number]) => number > part).map(([, other]) => other.node);
      const next = after.sort((a, b) => a.dataset.part - b.dataset.part)[0];
      item.bubble.insertBefore(shown.node, next ?? null);
    }
    Object.assign(shown, { revision, lost });
    shown.marker = fill(shown.node, text, format, recovered, lost, attachment, shown.marker);
    this.foot(item);
    return fresh;
  }

  foot(item) {
    const lost = [...item.parts.values()].find((shown) => shown.lost);
    item.foot.replaceChildren(stamp(item.at));
    if (lost) {
      item.foot.append(make("span", { className: "state" }, drawing("alert"), lost.lost));
    } else if (item.parts.size < item.total) {
      item.foot.append(make("span", { className: "state" }, `part ${item.parts.size} of ${item.total}, the rest is on its way`));
    }
    item.node.append(item.foot);
  }

  // ------------------------------------------------------------------------------ history

  // Take over what the ledger knows. `pending`: messages of this chat still in the outbox.
  history(entries, limit, pending) {
    const order = [];
    for (const entry of entries) {
      const key = entry.role === "user" ? this.heard(entry) : this.replied(entry);
      if (key) order.push(key);
    }
    for (const message of pending) this.say(message.id, message.text, message.at, "sending");
    const oldest = entries.length ? entries[0].at : 0;
    const rest = [...this.items.keys()].filter((key) => {
      return !order.includes(key) && (this.items.get(key).at >= oldest || this.items.get(key).node.dataset.state === "sending");
    });
    this.items = new Map([...order, ...rest].map((key) => [key, this.items.get(key)]));
    this.limit = limit;
    this.known = true;
    this.full = entries.length >= limit;
    this.arrange();
  }

  heard(entry) {
    const id = entry.client_id || entry.id;
    this.say(id, entry.text, entry.at, "delivered");
    return `user ${id}`;
  }

  replied(entry) {
    const abandoned = entry.state.startsWith("abandoned");
    const reason = /\((.*)\)/.exec(entry.state)?.[1].replaceAll("_", " ") ?? "";
    const parts = entry.parts.length ? entry.parts : [{ part: 1, text: entry.text, received: entry.state === "delivered" }];
    let recovered = entry.recovered; // said once, over the first of its parts
    for (const { part, text, received, attachment } of parts) {
      const seen = received || entry.state === "delivered";
      if (!seen && !abandoned) continue; // it will come by itself
      const lost = seen ? "" : `was not delivered${reason ? `: ${reason}` : ""}`;
      // A part that came by the socket is not replaced by the history's plain text of it.
      this.part({ delivery: entry.id, part, parts: parts.length, text, recovered: recovered && seen, at: entry.at, lost, attachment });
      if (seen) recovered = false;
    }
    return this.items.has(`reply ${entry.id}`) ? `reply ${entry.id}` : "";
  }

  // ------------------------------------------------------------------------------ nodes

  begin(key, role, at) {
    const item = {
      role,
      at,
      text: "",
      total: 0,
      parts: new Map(),
      node: make("article", { className: `message ${role}` }),
      bubble: make("div", { className: "bubble" }),
      foot: make("footer"),
    };
    item.node.append(make("span", { className: "unseen" }, role === "user" ? "You:" : "Reply:"), item.bubble);
    this.items.set(key, item);
    const before = [...this.items.values()].at(-2);
    if (!before || day(before.at) !== day(at)) this.node.append(dayLine(at));
    this.node.append(item.node);
    return item;
  }

  // Put the nodes into the order of the items, with a line where a day begins.
  arrange() {
    const nodes = [];
    let last = "";
    for (const item of this.items.values()) {
      if (day(item.at) !== last) nodes.push(dayLine(item.at));
      last = day(item.at);
      nodes.push(item.node);
    }
    this.node.replaceChildren(...nodes);
  }
}

// Put a part into its section: first the marker line, if it carries one, then its file, then the
// rest of the text. A file without a caption gets its line ahead, as a message of its own: `before`
// is the line that the section showed, and stays. Returns the line shown.
function fill(section, text, format, recovered, lost, attachment, before = "") {
  let rest = text;
  let marker = recovered ? before || "Recovered reply" : "";
  if (text.startsWith(MARKER)) {
    const end = text.indexOf("\n");
    marker = (end < 0 ? text : text.slice(0, end)).replace(/^♻\uFE0F?\s*/u, "").replace(/:$/, "");
    rest = end < 0 ? "" : text.slice(end).replace(/^\n+/, "");
  }
  section.replaceChildren();
  section.classList.toggle("lost", Boolean(lost));
  if (marker) section.append(make("p", { className: "recovered" }, drawing("again"), make("span", {}, marker)));
  if (attachment) section.append(attachmentShown(attachment, rest));
  if (rest) section.append(format === "plain" ? make("p", { className: "plain" }, rest) : render(rest));
  return marker;
}

function stamp(at) {
  const node = make("time", { title: moment(at) }, time(at));
  node.dateTime = new Date(at).toISOString();
  return node;
}

function dayLine(at) {
  return make("p", { className: "day" }, make("span", {}, day(at)));
}
