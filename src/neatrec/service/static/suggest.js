// Suggestions under a search field, as a combobox: arrow keys choose, Enter opens, Escape closes.
// Without this file the form around the field searches by itself.

const WAIT = 120; // milliseconds after the last key

class Suggest {
  constructor(input) {
    this.input = input;
    this.target = input.dataset.suggest;
    this.list = document.createElement("ul");
    this.list.className = "suggest";
    this.list.id = `${input.id}-list`;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Suggestions");
    this.list.hidden = true;
    input.after(this.list);
    const attributes = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.list.id };
    for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
    this.chosen = -1;
    this.asked = 0;
    input.addEventListener("input", () => this.later());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), WAIT);
  }

  async ask() {
    const text = this.input.value.trim();
    const number = ++this.asked;
    if (text.length < 2) return this.close();
    try {
      const answer = await fetch(`/v1/items?k=8&q=${encodeURIComponent(text)}`);
      if (!answer.ok || number !== this.asked) return; // a later question is on its way
      this.show((await answer.json()).items);
    } catch {
      this.close(); // the form still searches
    }
  }

  show(items) {
    this.list.replaceChildren(...items.map((item, place) => this.option(item, place)));
    this.chosen = -1;
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(items.length > 0));
    this.input.removeAttribute("aria-activedescendant");
  }

  option(item, place) {
    const option = document.createElement("li");
    option.id = `${this.list.id}-${place}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.textContent = item.name;
    const where = document.createElement("small");
    where.textContent = item.category.join(" › ");
    option.append(where);
    option.dataset.id = item.id;
    option.addEventListener("mousedown", (event) => {
      event.preventDefault();
      this.open(option);
    });
    return option;
  }

  key(event) {
    const options = [...this.list.children];
    if (event.key === "Escape") return this.close();
    if (this.list.hidden || options.length === 0) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.choose((this.chosen + step + options.length) % options.length, options);
    } else if (event.key === "Enter" && this.chosen >= 0) {
      event.preventDefault();
      this.open(options[this.chosen]);
    }
  }

  choose(place, options) {
    this.chosen = place;
    options.forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    this.input.setAttribute("aria-activedescendant", options[place].id);
    options[place].scrollIntoView({ block: "nearest" });
  }

  open(option) {
    window.location.assign(this.target + encodeURIComponent(option.dataset.id));
  }

  close() {
    this.list.hidden = true;
    this.chosen = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

for (const input of document.querySelectorAll("[data-suggest]")) new Suggest(input);
