// The map: one cell per GPU on a canvas that is as large as the window shows, drawn anew when it scrolls.
"use strict";

(() => {
  const box = document.getElementById("map");
  if (!box) return;
  const space = box.querySelector(".map-space");
  const canvas = box.querySelector("canvas");
  const tip = box.querySelector(".tip");
  const spoken = document.getElementById("spoken");
  const counted = document.getElementById("shown");
  const search = document.getElementById("filter");
  const pen = canvas.getContext("2d", { alpha: true });
  const address = new URL(location.href);
  const stored = (name, fallback) => address.searchParams.get(name) || localStorage.getItem(`gpusight.${name}`) || fallback;

  let data = null;
  let etag = "";
  let group = stored("group", "node");
  let color = stored("color", "verdict");
  let states = new Set(address.searchParams.getAll("state"));
  let blocks = [];
  let total = 0;
  let size = 20;
  let here = null; // the block and cell under the pointer or the keys
  let colors = {};
  let waiting = 0;

  const LABEL = 18;
  const GAP = 12;
  const PAD = 2;

  // --- what is shown ---

  function matches(text, row) {
    const c = data.columns;
    if (states.size && !states.has(data.states[c.state[row]])) return false;
    if (!text) return true;
    return [c.pod[row], c.gpu[row], data.nodes[c.node[row]], data.namespaces[c.namespace[row]], data.models[c.model[row]],
      data.subjects[c.subject[row]]].some((name) => name.toLowerCase().includes(text));
  }

  const KINDS = { node: ["node", "nodes"], namespace: ["namespace", "namespaces"], model: ["model", "models"] };

  function arrange() {
    const [column, names] = KINDS[group] || KINDS.node;
    const text = search.value.trim().toLowerCase();
    const groups = new Map();
    total = 0;
    for (let row = 0; row < data.columns.id.length; row++) {
      if (!matches(text, row)) continue;
      const key = data.columns[column][row];
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
      total++;
    }
    const named = [...groups].map(([key, rows]) => ({ name: data[names][key] || gpusight.say(group === "namespace" ? "fleet.not_held" : "fleet.no_name"), rows }));
    named.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    size = total <= 160 ? 28 : total <= 700 ? 22 : total <= 2500 ? 17 : total <= 6000 ? 14 : 12;
    place(named);
    counted.textContent = gpusight.say("fleet.shown", { shown: total.toLocaleString("en"), total: data.columns.id.length.toLocaleString("en") });
    box.querySelector(".nothing").hidden = total > 0;
    box.dataset.groups = blocks.length;
    if (here && !blocks.some((block) => block.rows.includes(here.row))) leave();
    drawSoon();
  }

  // Small groups stand side by side, large ones take the whole width.
  function place(named) {
    const width = space.clientWidth;
    const most = Math.max(1, Math.floor((width + PAD) / (size + PAD)));
    const largest = Math.max(1, ...named.map((each) => each.rows.length));
    const across = largest > 32 ? most : Math.min(most, Math.max(largest > 8 ? 8 : largest, Math.ceil(92 / (size + PAD))));
    const columns = Math.max(1, Math.min(across, most));
    const wide = columns * (size + PAD) - PAD;
    const beside = Math.max(1, Math.floor((width + GAP) / (wide + GAP)));
    const gap = beside > 1 ? (width - beside * wide) / (beside - 1) : GAP;
    let x = 0;
    let y = 0;
    let tallest = 0;
    blocks = [];
    for (const { name, rows } of named) {
      const high = LABEL + Math.ceil(rows.length / columns) * (size + PAD) - PAD;
      if (x > 0 && x + wide > width + 1) {
        x = 0;
        y += tallest + GAP;
        tallest = 0;
      }
      blocks.push({ name, rows, x: Math.round(x), y, columns, wide, high });
      x += wide + Math.min(gap, 4 * GAP);
      tallest = Math.max(tallest, high);
    }
    space.style.height = `${y + tallest}px`;
  }

  // --- drawing ---

  function readColors() {
    const probe = document.createElement("i");
    probe.style.display = "none";
    document.body.append(probe);
    const resolved = (value) => {
      probe.style.color = value;
      return getComputedStyle(probe).color;
    };
    colors = { text: resolved("var(--text)"), muted: resolved("var(--muted)"), accent: resolved("var(--accent)"), states: {} };
    for (const swatch of document.querySelectorAll(".legend [data-state] .swatch")) {
      colors.states[swatch.parentElement.dataset.state] = getComputedStyle(swatch).backgroundColor;
    }
    colors.font = getComputedStyle(document.documentElement).fontFamily;
    probe.remove();
  }

  const RAMP = [[214, 69, 65], [232, 178, 58], [47, 158, 95]];
  function rampColor(score) {
    const [from, to, share] = score < 45 ? [RAMP[0], RAMP[1], score / 45] : [RAMP[1], RAMP[2], (score - 45) / 55];
    return `rgb(${from.map((value, index) => Math.round(value + (to[index] - value) * share)).join()})`;
  }

  function colorOf(row) {
    if (color === "score") {
      const score = data.columns.score[row];
      if (score !== null) return rampColor(score);
    }
    return colors.states[data.states[data.columns.state[row]]];
  }

  function drawSoon() {
    waiting ||= requestAnimationFrame(draw);
  }

  function view() {
    const top = Number.parseFloat(getComputedStyle(canvas).top) || 0;
    const height = Math.min(space.clientHeight, innerHeight - top);
    const offset = Math.min(Math.max(0, top - space.getBoundingClientRect().top), Math.max(0, space.clientHeight - height));
    return { height, offset };
  }

  function draw() {
    waiting = 0;
    if (!data) return;
    const { height, offset } = view();
    const width = space.clientWidth;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "alphabetic";
    for (const block of blocks) {
      if (block.y + block.high < offset || block.y > offset + height) continue;
      drawBlock(block, offset);
    }
    if (here) outline(here, offset);
    if (!box.dataset.drawn) performance.mark("gpusight-drawn");
    box.dataset.drawn = data.round;
  }

  function drawBlock(block, offset) {
    const top = block.y - offset;
    pen.font = `500 12px ${colors.font}`;
    pen.fillStyle = colors.muted;
    pen.fillText(fitted(block), block.x, top + 11);
    let last = "";
    block.rows.forEach((row, number) => {
      const wanted = colorOf(row);
      if (wanted !== last) pen.fillStyle = last = wanted;
      const x = block.x + (number % block.columns) * (size + PAD);
      const y = top + LABEL + Math.floor(number / block.columns) * (size + PAD);
      if (size >= 17) {
        pen.beginPath();
        pen.roundRect(x, y, size, size, 4);
        pen.fill();
      } else {
        pen.fillRect(x, y, size, size);
      }
    });
  }

  function fitted(block) {
    if (block.label !== undefined) return block.label;
    const count = block.rows.length > 32 ? `  ${block.rows.length.toLocaleString("en")}` : "";
    let name = block.name;
    const most = Math.max(block.wide, 40);
    if (pen.measureText(name + count).width > most) {
      // The end of a node's name tells more than its beginning.
      while (name.length > 3 && pen.measureText(`…${name}${count}`).width > most) name = name.slice(Math.max(1, Math.ceil(name.length / 12)));
      name = `…${name}`;
    }
    return (block.label = name + count);
  }

  function outline({ block, number }, offset) {
    const x = block.x + (number % block.columns) * (size + PAD);
    const y = block.y - offset + LABEL + Math.floor(number / block.columns) * (size + PAD);
    pen.lineWidth = 2;
    pen.strokeStyle = colors.text;
    pen.strokeRect(x - 1, y - 1, size + 2, size + 2);
  }

  // --- pointing, keys ---

  function at(event) {
    const area = canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top + view().offset;
    for (const block of blocks) {
      if (x < block.x || x >= block.x + block.wide + PAD || y < block.y + LABEL || y >= block.y + block.high + PAD) continue;
      const column = Math.floor((x - block.x) / (size + PAD));
      const number = Math.floor((y - block.y - LABEL) / (size + PAD)) * block.columns + column;
      if (column < block.columns && number < block.rows.length) return { block, number, row: block.rows[number] };
    }
    return null;
  }

  function words(row) {
    const c = data.columns;
    const pod = c.pod[row];
    const state = data.states[c.state[row]];
    const score = c.score[row];
    return {
      title: pod ? `${data.namespaces[c.namespace[row]]} / ${pod}` : gpusight.say("fleet.not_held"),
      state: gpusight.say(`state.${state}`) + (score === null ? "" : ` · ${gpusight.say("fleet.score")} ${score.toFixed(0)}`),
      device: [data.models[c.model[row]], data.nodes[c.node[row]]].filter(Boolean).join(" · "),
      gpu: [c.gpu[row], c.part[row]].filter(Boolean).join(" "),
      why: data.reasons[c.subject[row]],
      kind: state,
    };
  }

  function enter(found, speak) {
    here = found;
    const said = words(found.row);
    const line = (tag, text, name) => {
      const element = document.createElement(tag);
      element.textContent = text;
      if (name) element.className = name;
      return element;
    };
    const state = line("span", ` ${said.state}`);
    const swatch = line("i", "", `swatch s-${said.kind}`);
    const first = line("div", "");
    first.append(swatch, state);
    tip.replaceChildren(line("b", said.title), first, line("div", said.device, "muted"), line("div", said.gpu, "muted mono"), line("div", said.why, "why"));
    tip.hidden = false;
    const { block, number } = found;
    const x = block.x + (number % block.columns) * (size + PAD);
    const y = block.y + LABEL + Math.floor(number / block.columns) * (size + PAD);
    const room = space.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(x + size + 8, room))}px`;
    const below = y + size + 8;
    const bottom = view().offset + view().height;
    tip.style.top = `${below + tip.offsetHeight > bottom && y - tip.offsetHeight - 8 > view().offset ? y - tip.offsetHeight - 8 : below}px`;
    if (speak) spoken.textContent = [said.title, said.state, said.device, said.why].join(". ");
    drawSoon();
  }

  function leave() {
    here = null;
    tip.hidden = true;
    drawSoon();
  }

  const open = (found) => location.assign(`/gpu/${encodeURIComponent(data.columns.id[found.row])}`);

  canvas.addEventListener("pointermove", (event) => {
    const found = at(event);
    if (!found) return leave();
    if (found.row !== here?.row) enter(found, false);
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("click", (event) => {
    const found = at(event);
    if (found) open(found);
  });
  canvas.addEventListener("blur", leave);

  function step(by) {
    let index = here ? blocks.indexOf(here.block) : 0;
    let number = here ? here.number + by : 0;
    while (blocks[index] && number >= blocks[index].rows.length) number -= blocks[index++].rows.length;
    while (number < 0 && index > 0) number += blocks[--index].rows.length;
    const block = blocks[index];
    if (!block || number < 0) return;
    enter({ block, number, row: block.rows[number] }, true);
    const top = space.getBoundingClientRect().top + block.y + LABEL + Math.floor(number / block.columns) * (size + PAD);
    if (top < 130) scrollBy(0, top - 130);
    else if (top + size > innerHeight - 20) scrollBy(0, top + size - innerHeight + 160);
  }

  canvas.addEventListener("keydown", (event) => {
    if (!blocks.length) return;
    const columns = here?.block.columns || 1;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (event.key in moves) step(moves[event.key]);
    else if (event.key === "Enter" && here) open(here);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });

  // --- choices ---

  function choose(kind, value) {
    if (kind === "group") group = value;
    else color = value;
    localStorage.setItem(`gpusight.${kind}`, value);
    press();
    if (data) arrange();
  }

  function press() {
    for (const button of document.querySelectorAll("[data-choose]")) {
      const chosen = button.dataset.choose === "group" ? group : color;
      button.setAttribute("aria-pressed", String(button.value === chosen));
    }
    for (const button of document.querySelectorAll(".legend [data-state]")) {
      button.setAttribute("aria-pressed", String(states.has(button.dataset.state)));
    }
    document.getElementById("ramp").hidden = color !== "score";
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-choose], .legend [data-state]");
    if (!button) return;
    if (button.dataset.choose) return choose(button.dataset.choose, button.value);
    const state = button.dataset.state;
    if (!states.delete(state)) states.add(state);
    press();
    if (data) arrange();
  });
  search.addEventListener("input", () => data && arrange());
  search.form.addEventListener("submit", (event) => event.preventDefault());

  function count() {
    const counts = new Array(data.states.length).fill(0);
    for (const state of data.columns.state) counts[state]++;
    for (const button of document.querySelectorAll(".legend [data-state]")) {
      const number = counts[data.states.indexOf(button.dataset.state)] || 0;
      button.querySelector("b").textContent = number.toLocaleString("en");
      button.dataset.count = number;
    }
  }

  async function load() {
    try {
      const answer = await fetch("/page/fleet.json", etag ? { headers: { "If-None-Match": etag } } : {});
      if (!answer.ok) return;
      etag = answer.headers.get("ETag") || "";
      data = await answer.json();
    } catch {
      return;
    }
    readColors();
    press();
    count();
    arrange();
  }

  addEventListener("scroll", drawSoon, { passive: true });
  new ResizeObserver(() => data && arrange()).observe(space);
  gpusight.onRound(load);
  gpusight.onTheme(() => {
    readColors();
    drawSoon();
  });
  load();
})();
