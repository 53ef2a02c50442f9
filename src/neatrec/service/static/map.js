// The map: wheel, pinch, buttons and keys zoom; dragging and arrow keys move; a click opens the item.
// The points in view are asked for again when the view has come to rest, so that zooming in shows more.

const ALL = { x: 0, y: 0, side: 1000 };
const SMALLEST = 10;
const LISTED = 24;

class ItemMap {
  constructor(svg) {
    this.svg = svg;
    this.group = svg.querySelector("#points");
    this.tip = svg.parentElement.querySelector(".tip");
    this.list = document.querySelector("#listed");
    this.said = document.querySelector("#in-view");
    this.marked = this.group.querySelector(".asked")?.dataset.id;
    this.view = { ...ALL };
    this.fingers = new Map();
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, (event) => this.up(event));
    svg.addEventListener("pointerleave", () => this.untip());
    svg.addEventListener("click", (event) => this.click(event));
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => this.button(button.dataset.zoom));
    }
    if (this.marked) this.centre(this.group.querySelector(".asked"));
  }

  centre(ellipse) {
    const side = 350;
    this.show({ x: ellipse.cx.baseVal.value - side / 2, y: ellipse.cy.baseVal.value - side / 2, side });
  }

  show(view) {
    const side = Math.min(Math.max(view.side, SMALLEST), ALL.side);
    const x = Math.min(Math.max(view.x, 0), ALL.side - side);
    const y = Math.min(Math.max(view.y, 0), ALL.side - side);
    this.view = { x, y, side };
    this.svg.setAttribute("viewBox", `${x} ${y} ${side} ${side}`);
    this.size();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.renew(), 200);
  }

  // ellipses keep about their size on the screen: zooming in parts what lies close together
  size() {
    const scale = Math.sqrt(this.view.side / ALL.side) * (this.view.side / ALL.side) ** 0.25;
    for (const ellipse of this.group.children) {
      ellipse.dataset.rx ??= ellipse.getAttribute("rx");
      const radius = Number(ellipse.dataset.rx) * scale;
      ellipse.setAttribute("rx", radius);
      ellipse.setAttribute("ry", radius);
    }
  }

  zoom(factor, at = { x: this.view.x + this.view.side / 2, y: this.view.y + this.view.side / 2 }) {
    const side = Math.min(Math.max(this.view.side * factor, SMALLEST), ALL.side);
    const share = side / this.view.side;
    this.show({ x: at.x - (at.x - this.view.x) * share, y: at.y - (at.y - this.view.y) * share, side });
  }

  place(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(this.svg.getScreenCTM().inverse());
  }

  wheel(event) {
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, this.place(event));
  }

  key(event) {
    const step = this.view.side / 8;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      const [x, y] = moves[event.key];
      this.show({ x: this.view.x + x, y: this.view.y + y, side: this.view.side });
    } else if (event.key === "+" || event.key === "=") this.zoom(1 / 1.5);
    else if (event.key === "-") this.zoom(1.5);
    else if (event.key === "0") this.show(ALL);
    else return;
    event.preventDefault();
  }

  button(kind) {
    if (kind === "all") this.show(ALL);
    else this.zoom(kind === "in" ? 1 / 1.6 : 1.6);
  }

  down(event) {
    this.fingers.set(event.pointerId, this.place(event));
    this.dragged = false;
  }

  move(event) {
    const from = this.fingers.get(event.pointerId);
    if (!from) return this.hover(event);
    const to = this.place(event);
    if (this.fingers.size === 2) {
      const [other] = [...this.fingers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const before = Math.hypot(from.x - other.x, from.y - other.y);
      const after = Math.hypot(to.x - other.x, to.y - other.y);
      if (before > 0 && after > 0) this.zoom(before / after, other);
      this.fingers.set(event.pointerId, this.place(event));
    } else if (Math.hypot(to.x - from.x, to.y - from.y) > this.view.side / 200 || this.dragged) {
      this.dragged = true;
      this.svg.setPointerCapture(event.pointerId);
      this.show({ x: this.view.x + from.x - to.x, y: this.view.y + from.y - to.y, side: this.view.side });
    }
  }

  up(event) {
    this.fingers.delete(event.pointerId);
  }

  hover(event) {
    const ellipse = event.target.closest("ellipse");
    if (!ellipse) return this.untip();
    const frame = this.svg.getBoundingClientRect();
    this.tip.textContent = ellipse.dataset.name;
    this.tip.hidden = false;
    const left = Math.min(event.clientX - frame.left + 14, frame.width - this.tip.offsetWidth - 8);
    this.tip.style.left = `${Math.max(left, 8)}px`;
    this.tip.style.top = `${Math.max(event.clientY - frame.top - 40, 8)}px`;
  }

  untip() {
    this.tip.hidden = true;
  }

  click(event) {
    const ellipse = event.target.closest("ellipse");
    if (ellipse && !this.dragged) window.location.assign(`/item?id=${encodeURIComponent(ellipse.dataset.id)}`);
  }

  async renew() {
    const { x, y, side } = this.view;
    const box = [x, y, x + side, y + side].map((number) => number.toFixed(2)).join(",");
    try {
      const answer = await fetch(`/map/points?box=${box}`);
      if (!answer.ok) return;
      this.draw((await answer.json()).points);
    } catch {
      // what is drawn stays: the next move asks again
    }
  }

  draw(points) {
    this.group.replaceChildren(...points.map((point) => this.ellipse(point)));
    this.size();
    this.list.replaceChildren(...points.slice(0, LISTED).map((point) => this.chip(point)));
    this.said.textContent = points.length ? `${points.length} items in view, the best sellers first.` : "No item in view: zoom out.";
  }

  ellipse([cx, cy, rx, ry, colour, id, name]) {
    const ellipse = document.createElementNS("http://www.w3.org/2000/svg", "ellipse");
    for (const [key, value] of Object.entries({ cx, cy, rx, ry })) ellipse.setAttribute(key, value);
    ellipse.setAttribute("class", `k${colour}${id === this.marked ? " asked" : ""}`);
    ellipse.dataset.id = id;
    ellipse.dataset.name = name;
    return ellipse;
  }

  chip([, , , , , id, name]) {
    const line = document.createElement("li");
    const link = document.createElement("a");
    link.className = "chip";
    link.href = `/item?id=${encodeURIComponent(id)}`;
    link.textContent = name;
    line.append(link);
    return line;
  }
}

const svg = document.querySelector("svg.map");
if (svg) new ItemMap(svg);
