// The list of chats: newest first, with unread marks. On a phone it is a drawer.

import { make } from "./dom.js";
import { brief } from "./when.js";

const phone = matchMedia("(max-width: 760px)");

export class Sidebar {
  constructor() {
    this.list = document.getElementById("chats");
    this.panel = document.getElementById("sidebar");
    this.shade = document.getElementById("shade");
    this.button = document.getElementById("menu");
    this.talk = document.getElementById("talk");
    this.button.addEventListener("click", () => this.drawer(true));
    this.shade.addEventListener("click", () => this.drawer(false));
    this.list.addEventListener("click", () => this.drawer(false));
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && document.body.classList.contains("drawer")) this.drawer(false);
    });
    phone.addEventListener("change", () => this.drawer(false));
    this.drawer(false);
  }

  drawer(open) {
    const was = document.body.classList.contains("drawer");
    document.body.classList.toggle("drawer", open);
    this.button.setAttribute("aria-expanded", String(open));
    this.shade.hidden = !open;
    this.talk.inert = open;
    this.panel.inert = phone.matches && !open;
    if (open) this.panel.querySelector("[aria-current], button").focus();
    else if (was) this.button.focus();
  }

  // chats: [{ id, title, at, unread }], in the order to be shown.
  show(chats, current) {
    this.list.replaceChildren(...chats.map(({ id, title, at, unread }) => {
      const link = make("a", { href: `#${id}`, title }, make("span", { className: "name" }, title));
      if (id === current) link.setAttribute("aria-current", "page");
      if (unread > 0) {
        const count = make("span", { className: "unread" }, unread > 99 ? "99+" : String(unread));
        count.append(make("span", { className: "unseen" }, " unread"));
        link.append(count);
      } else if (at) {
        link.append(make("time", {}, brief(at)));
      }
      return make("li", {}, link);
    }));
    document.getElementById("menu-dot").hidden = !chats.some(({ unread }) => unread > 0);
  }
}
