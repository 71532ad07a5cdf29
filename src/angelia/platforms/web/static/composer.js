// The box to write in: it grows with the text, Enter sends, an input method is left alone.

export class Composer {
  constructor(send) {
    this.form = document.getElementById("composer");
    this.box = document.getElementById("text");
    this.button = document.getElementById("send");
    this.hint = document.getElementById("hint");
    this.usual = [...this.hint.childNodes];
    this.composing = false;
    this.drafts = new Map();
    this.box.addEventListener("input", () => this.changed());
    this.box.addEventListener("compositionstart", () => (this.composing = true));
    this.box.addEventListener("compositionend", () => (this.composing = false));
    this.box.addEventListener("keydown", (event) => {
      // 229: some browsers end a composition before they report the key that ended it.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || this.composing || event.keyCode === 229) return;
      event.preventDefault();
      this.submit(send);
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(send);
    });
    this.changed();
  }

  get text() {
    return this.box.value;
  }

  set text(value) {
    this.box.value = value;
    this.changed();
  }

  submit(send) {
    if (this.text.trim() === "") return;
    const problem = send(this.text);
    if (problem) this.complain(problem);
    else this.text = "";
    this.box.focus();
  }

  complain(problem) {
    this.hint.classList.add("problem");
    this.hint.setAttribute("role", "alert");
    this.hint.textContent = problem;
  }

  changed() {
    this.button.disabled = this.text.trim() === "";
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight}px`;
    if (this.hint.classList.contains("problem")) {
      this.hint.classList.remove("problem");
      this.hint.removeAttribute("role");
      this.hint.replaceChildren(...this.usual);
    }
  }

  // Each chat keeps what was begun in it.
  move(from, to) {
    if (from) this.drafts.set(from, this.text);
    this.text = this.drafts.get(to) ?? "";
  }

  focus() {
    if (matchMedia("(hover: hover)").matches) this.box.focus({ preventScroll: true });
  }
}
