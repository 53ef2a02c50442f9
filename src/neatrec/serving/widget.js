// Shows what goes well with a product. docs/how-to/exports.md explains the attributes.
//   <div data-neatrec="ID" data-source="/v1/complements?item={id}&k=4"></div>
(() => {
  "use strict";
  const shard = (id) => {
    let state = 2166136261; // FNV-1a
    for (const byte of new TextEncoder().encode(id)) state = Math.imul(state ^ byte, 16777619);
    return (state >>> 0) % 1024;
  };

  const fill = (template, id) => template.replace("{id}", encodeURIComponent(id)).replace("{shard}", shard(id));

  const make = (parent, tag, text, className) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    return parent.appendChild(made);
  };

  const add = (place, line, said) => {
    const event = new CustomEvent("neatrec:add", {
      bubbles: true,
      cancelable: true,
      detail: { id: line.id, name: line.name, beside: place.dataset.neatrec },
    });
    const form = place.dataset.form && document.querySelector(place.dataset.form);
    if (place.dispatchEvent(event) && form) {
      form.elements[place.dataset.field || "id"].value = line.id;
      form.requestSubmit();
    }
    said.textContent = `${line.name}: ${place.dataset.added || "added"}`;
  };

  const show = (place, lines) => {
    const { title, link, add: words } = place.dataset;
    place.replaceChildren();
    place.hidden = !lines.length;
    if (!lines.length) return;
    const section = make(place, "section", "", "neatrec");
    section.setAttribute("aria-label", make(section, "h2", title || "Goes well with", "neatrec-title").textContent);
    const list = make(section, "ul", "", "neatrec-list");
    const said = make(section, "p", "", "neatrec-said");
    said.setAttribute("role", "status");
    for (const line of lines) {
      const row = make(list, "li", "", "neatrec-item");
      const name = make(row, link ? "a" : "span", line.name, "neatrec-name");
      if (link) name.href = fill(link, line.id);
      const button = make(row, "button", words || "Add to cart", "neatrec-add");
      button.type = "button";
      button.setAttribute("aria-label", `${button.textContent}: ${line.name}`);
      button.addEventListener("click", () => add(place, line, said));
    }
  };

  const load = async (place) => {
    const { neatrec: id, source, k } = place.dataset;
    const update = (lines) => place.dataset.neatrec === id && show(place, lines); // not of a product before
    try {
      const answer = await fetch(fill(source, id));
      const found = answer.ok ? await answer.json() : {};
      const { complements = [] } = (source.includes("{shard}") ? found[id] : found) ?? {};
      update(complements.slice(0, Number(k) || 4));
    } catch (error) {
      console.warn("neatrec:", error.message);
      update([]); // nothing is better than a broken page
    }
  };

  const start = () => document.querySelectorAll("[data-neatrec]").forEach(load);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  window.neatrecLoad = load;
})();
