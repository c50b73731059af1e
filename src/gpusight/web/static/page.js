// Every page: theme, local times, news of finished rounds. Nothing here is needed to read a page.
"use strict";

const gpusight = (() => {
  const root = document.documentElement;
  const words = JSON.parse(document.body.dataset.words || "{}");
  const refreshers = [];

  function say(name, values = {}) {
    return (words[name] || name).replace(/\{(\w+)\}/g, (_, key) => String(values[key] ?? ""));
  }

  function age(seconds) {
    for (const [unit, name, digits] of [[86400, "days", 1], [3600, "hours", 1], [60, "minutes", 0]]) {
      if (seconds >= 2 * unit) return say(`age.${name}`, { n: Number((seconds / unit).toFixed(digits)) });
    }
    return say("age.seconds", { n: Math.max(0, Math.round(seconds)) });
  }

  // Times in the reader's own zone; the title keeps UTC.
  const pad = (number) => String(number).padStart(2, "0");
  function localTimes(within) {
    for (const time of within.querySelectorAll("time[data-local]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = at.toISOString().replace("T", " ").slice(0, 19) + " UTC";
      time.textContent =
        `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
    }
  }

  // Theme: the other one than is shown now, kept in a cookie that the server reads.
  const isDark = () =>
    root.dataset.theme === "dark" || (root.dataset.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  const themed = [];
  function retheme() {
    for (const each of themed) each();
  }
  document.getElementById("theme")?.addEventListener("click", (event) => {
    event.preventDefault();
    root.dataset.theme = isDark() ? "light" : "dark";
    document.cookie = `gpusight_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    retheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

  // What is marked data-live is taken anew from the server when a round has finished.
  async function refresh() {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const old of document.querySelectorAll("[data-live]")) {
          const now = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
          if (now && !old.contains(document.activeElement)) {
            old.replaceWith(now);
            localTimes(now);
          }
        }
      }
    } catch {
      return;
    }
    for (const each of refreshers) each();
  }

  // News come as events while the page is looked at; where that is not possible, the page asks from time to time.
  const status = document.getElementById("live");
  const lost = document.getElementById("lost");
  let shown = Number(document.body.dataset.round || 0);
  let news = null;
  let heard = 0;
  let stream = null;
  let asking = 0;
  let failures = 0;

  function hear(said) {
    news = said;
    failures = 0;
    heard = performance.now();
    lost.hidden = true;
    if (said.round !== shown) {
      shown = said.round;
      refresh();
    }
    tick();
  }

  function tick() {
    if (!status) return;
    if (!news) return;
    if (news.age === null) {
      status.dataset.state = "old";
      status.textContent = say("live.waiting");
      return;
    }
    const seconds = news.age + (performance.now() - heard) / 1000;
    status.dataset.state = news.old ? "old" : "fresh";
    status.textContent = seconds < 2 ? say("live.now") : say("live.ago", { age: age(seconds) });
  }

  function lose() {
    if (!status) return;
    status.dataset.state = "lost";
    status.textContent = say("live.lost");
    const at = news?.at ? new Date(news.at) : null;
    lost.textContent = say("banner.lost", { time: at ? `${pad(at.getHours())}:${pad(at.getMinutes())}` : "–" });
    lost.hidden = false;
  }

  async function ask() {
    try {
      const answer = await fetch("/api/v1/round");
      if (!answer.ok) throw new Error();
      const round = await answer.json();
      hear({ round: round.number, at: round.at, age: Math.max(0, (Date.now() - Date.parse(round.at)) / 1000), old: false });
    } catch {
      lose();
    }
  }

  function listen() {
    if (!status || stream) return;
    stream = new EventSource("/api/v1/events");
    stream.addEventListener("round", (event) => hear(JSON.parse(event.data)));
    stream.onerror = () => {
      if (stream?.readyState === EventSource.CLOSED) {
        stream = null;
        asking ||= setInterval(ask, 15000);
      } else if (++failures > 1) {
        lose(); // one may be the end of a stream, after which the next begins
      }
    };
  }

  function rest() {
    stream?.close();
    stream = null;
    clearInterval(asking);
    asking = 0;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  addEventListener("pagehide", rest);
  addEventListener("pageshow", (event) => event.persisted && listen());
  setInterval(tick, 1000);
  localTimes(document);
  listen();

  return {
    say,
    age,
    localTimes,
    isDark,
    onRound: (call) => refreshers.push(call),
    onTheme: (call) => themed.push(call),
  };
})();
