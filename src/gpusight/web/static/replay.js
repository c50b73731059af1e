// The form of a back-test: sends it as JSON, shows the figure and the table.
"use strict";

(() => {
  const form = document.getElementById("replay");
  if (!form) return;
  const message = document.getElementById("replay-message");
  const result = document.getElementById("replay-result");
  const figure = document.getElementById("replay-figure");
  const button = form.querySelector("button.primary");
  const LARGEST = 1 << 20;

  const utc = (text) => (text ? new Date(`${text}Z`).toISOString() : undefined);

  async function asked() {
    const fields = new FormData(form);
    const own = String(fields.get("own") || "").split("\n").map((line) => line.trim()).filter(Boolean);
    const body = { policies: [...fields.getAll("policy"), ...own] };
    if (fields.get("source") === "csv") {
      const file = fields.get("csv");
      if (!file || !file.size) throw new Error(gpusight.say("replay.no_file"));
      if (file.size > LARGEST) throw new Error(gpusight.say("replay.too_large"));
      return { ...body, csv: await file.text() };
    }
    return { ...body, from: utc(fields.get("from")), to: utc(fields.get("to")) };
  }

  function tell(text, kind) {
    message.textContent = text;
    message.className = `banner ${kind}`;
    message.hidden = !text;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(gpusight.say("replay.running"), "");
    try {
      const answer = await fetch("/page/replay", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(await asked()),
      });
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.error.message);
      tell("", "");
      document.getElementById("replay-card").hidden = false;
      result.replaceChildren(...new DOMParser().parseFromString(said.html, "text/html").body.childNodes);
      gpusight.charts.show(figure, said);
      figure.scrollIntoView({ block: "nearest" });
    } catch (error) {
      tell(gpusight.say("replay.failed", { reason: error.message }), "bad");
    } finally {
      button.disabled = false;
    }
  });

  form.elements.csv.addEventListener("change", () => {
    form.elements.source.value = "csv";
  });
})();
