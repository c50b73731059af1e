// Figures come from the server as data; colors of text and lines are taken from the page.
"use strict";

gpusight.charts = (() => {
  function colorOf(name) {
    const probe = document.createElement("i");
    probe.style.cssText = `display:none;color:var(${name})`;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  }

  function styled(layout) {
    const text = colorOf("--muted");
    const line = colorOf("--line");
    const card = colorOf("--card");
    const dressed = {
      margin: { l: 58, r: 14, t: 8, b: 34 },
      height: 240,
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: text },
      hoverlabel: { bgcolor: card, bordercolor: line, font: { color: colorOf("--text") } },
    };
    for (const name of Object.keys(dressed)) {
      if (/^[xy]axis\d*$/.test(name)) {
        dressed[name] = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...dressed[name] };
      }
    }
    return dressed;
  }

  const options = { displaylogo: false, displayModeBar: false, responsive: true };

  function show(box, answer) {
    const wanted = answer.figures.map((figure) => figure.name).join(" ");
    if (box.dataset.shown !== wanted) {
      box.replaceChildren(...answer.figures.map((figure) => frame(figure, answer.figures.length === 1)));
      box.dataset.shown = wanted;
    }
    answer.figures.forEach((figure, number) => draw(box.children[number], figure));
    if (answer.note) {
      const note = document.createElement("p");
      note.className = "muted small";
      note.textContent = answer.note;
      box.append(note);
    }
    box.dataset.ready = "yes";
  }

  function frame(figure, isOnly) {
    const article = document.createElement("article");
    article.className = isOnly ? "chart bare" : "chart";
    const title = document.createElement("h3");
    title.textContent = figure.title;
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", figure.title);
    article.append(title, plot);
    return article;
  }

  function draw(article, figure) {
    const plot = article.querySelector(".plot");
    article.figure = figure;
    if (!figure.data.length) {
      const none = document.createElement("div");
      none.className = "none";
      none.textContent = gpusight.say("gpu.no_samples");
      if (plot.data) Plotly.purge(plot);
      plot.replaceChildren(none);
      return;
    }
    if (!plot.data) plot.replaceChildren();
    Plotly.react(plot, figure.data, styled(figure.layout), options);
  }

  gpusight.onTheme(() => {
    for (const article of document.querySelectorAll(".chart")) {
      if (article.figure?.data.length) draw(article, article.figure);
    }
  });

  async function load(box) {
    try {
      const answer = await fetch(box.dataset.figures);
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.error.message);
      show(box, said);
    } catch (error) {
      if (box.dataset.ready) return; // what is shown stays
      const note = document.createElement("p");
      note.className = "banner warn";
      note.textContent = gpusight.say("gpu.charts_failed", { reason: error.message });
      box.replaceChildren(note);
    }
  }

  for (const box of document.querySelectorAll("[data-figures]")) {
    load(box);
    gpusight.onRound(() => load(box));
  }
  return { show };
})();
