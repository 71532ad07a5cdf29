// One socket to the gateway, for as long as the page lives.
//
// It comes back by itself, with growing pauses, and at once when the machine is online again or the
// page is looked at. A socket that looks open but is dead is found out by asking a question.

const PAUSE_FIRST_MS = 300;
const PAUSE_MOST_MS = 15000;
const ANSWER_WITHIN_MS = 6000;

export class Connection {
  // on: { open(), frame(frame), down(), signedOut() }
  constructor(socketUrl, pageUrl, on) {
    this.socketUrl = socketUrl;
    this.pageUrl = pageUrl;
    this.on = on;
    this.pause = PAUSE_FIRST_MS;
    this.socket = null;
    this.timer = 0;
    this.question = 0;
    addEventListener("online", () => this.now());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.now();
    });
    this.connect();
  }

  get up() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  // False: nothing was sent. True promises nothing: only the gateway's answer does.
  send(frame) {
    if (!this.up) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  // Connect without waiting any longer, or make sure that the connection is alive.
  now() {
    if (this.up) {
      this.send({ type: "chats" });
      clearTimeout(this.question);
      this.question = setTimeout(() => this.drop(), ANSWER_WITHIN_MS);
    } else if (this.socket === null) {
      clearTimeout(this.timer);
      this.connect();
    }
  }

  connect() {
    const socket = new WebSocket(this.socketUrl);
    let opened = false;
    this.socket = socket;
    socket.onopen = () => {
      opened = true;
      this.pause = PAUSE_FIRST_MS;
      this.on.open();
    };
    socket.onmessage = (event) => {
      clearTimeout(this.question);
      this.on.frame(JSON.parse(event.data));
    };
    socket.onclose = () => {
      if (this.socket === socket) this.lost(opened);
    };
  }

  // Give a silent socket up without waiting for its end.
  drop() {
    const socket = this.socket;
    if (socket === null) return;
    socket.onmessage = socket.onclose = null;
    socket.close();
    this.lost(true);
  }

  lost(opened) {
    clearTimeout(this.question);
    this.socket = null;
    this.on.down();
    if (!opened) this.askWhy();
    const pause = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(this.pause * 1.7, PAUSE_MOST_MS);
    this.timer = setTimeout(() => this.connect(), pause);
  }

  // A refused handshake does not tell its reason to a script; the page itself does.
  async askWhy() {
    try {
      const answer = await fetch(this.pageUrl, { cache: "no-store" });
      if (answer.status === 401) this.on.signedOut();
    } catch {
      // The gateway is down; it will be back.
    }
  }
}
