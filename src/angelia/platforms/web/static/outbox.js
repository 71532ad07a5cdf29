// Messages that the gateway has not yet said it has committed.
//
// They are kept in the browser's storage, each under a key of its own (so that two tabs cannot
// overwrite each other), and sent again under the same id after every reconnect. The gateway
// knows an id it has seen, so sending twice is safe, and a kill in between loses nothing.

export class Outbox {
  constructor(place) {
    this.prefix = `angelia ${place} outbox `;
    this.memory = new Map(); // where the storage is full or forbidden, the page itself remembers
  }

  add(message) {
    this.memory.set(message.id, message);
    try {
      localStorage.setItem(this.prefix + message.id, JSON.stringify(message));
    } catch {
      // kept in memory only
    }
  }

  remove(id) {
    this.memory.delete(id);
    try {
      localStorage.removeItem(this.prefix + id);
    } catch {
      // was never there
    }
  }

  // Oldest first.
  all() {
    const found = new Map(this.memory);
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(this.prefix)) continue;
        const message = parsed(localStorage.getItem(key));
        if (message) found.set(message.id, message);
        else localStorage.removeItem(key);
      }
    } catch {
      // no storage here
    }
    return [...found.values()].sort((a, b) => a.at - b.at || a.turn - b.turn);
  }
}

function parsed(text) {
  try {
    const { chat, id, text: words, at, turn } = JSON.parse(text);
    if (typeof chat === "string" && typeof id === "string" && typeof words === "string") {
      return { chat, id, text: words, at: Number(at) || 0, turn: Number(turn) || 0 };
    }
  } catch {
    // not ours
  }
  return null;
}
