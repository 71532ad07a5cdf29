// Where the reader is: new messages scroll into view only for those who are at the end.

const NEAR_PX = 90;

export class Reader {
  constructor() {
    this.box = document.getElementById("scroll");
    this.button = document.getElementById("newest");
    this.button.addEventListener("click", () => this.toEnd());
    this.box.addEventListener("scroll", () => {
      if (this.atEnd) this.button.hidden = true;
    }, { passive: true });
    this.held = true; // whether the end is to stay in view
    new ResizeObserver(() => {
      if (this.held) this.toEnd();
    }).observe(this.box);
    new ResizeObserver(() => {
      if (this.held) this.toEnd(); // a picture has come, and is as large as it is
    }).observe(document.getElementById("log"));
    this.box.addEventListener("scroll", () => (this.held = this.atEnd), { passive: true });
  }

  get atEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_PX;
  }

  // null: at the end.
  get place() {
    return this.atEnd ? null : this.box.scrollTop;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.button.hidden = true;
    this.held = true;
  }

  go(place) {
    if (place === null) this.toEnd();
    else {
      this.box.scrollTop = place;
      this.held = false;
    }
    this.button.hidden = true;
  }

  // Change what is shown and keep the reader where he is, or at the end if he was there.
  around(change, news = false) {
    const end = this.atEnd;
    const changed = change();
    if (end) this.toEnd();
    else if (news && changed) this.button.hidden = false;
    return changed;
  }

  // Put something above what is shown: the lines in view do not move.
  above(change) {
    const rest = this.box.scrollHeight - this.box.scrollTop;
    change();
    this.box.scrollTop = this.box.scrollHeight - rest;
  }
}
