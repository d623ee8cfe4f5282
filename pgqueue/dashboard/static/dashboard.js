// What is nicer with JavaScript: figures that follow, charts, and a count of what is selected. All else is in the pages.
"use strict";

function follow() {
  const parts = () => document.querySelectorAll("[data-live]");
  if (!parts().length) return;
  const refresh = () => {
    const within = document.activeElement && document.activeElement.closest("[data-live] form");
    if (!within && !document.hidden) parts().forEach((part) => htmx.trigger(part, "figures"));
  };
  const events = new EventSource("/live");
  events.addEventListener("figures", refresh);
  window.addEventListener("pagehide", () => events.close());
}

function colours() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return dark
    ? { ink: "#a0abba", line: "#2d343f", series: ["#8db7ff", "#7ed9a3", "#f2c46d", "#ff9d94"] }
    : { ink: "#566070", line: "#dfe3e9", series: ["#1f56b3", "#19803f", "#b06f00", "#c02b2b"] };
}

// Labels have no seconds: ticks are whole minutes apart.
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 10080, 43200].map((minutes) => minutes * 60);

function label(at) {
  const text = new Date(at * 1e3).toISOString();
  return text.endsWith("T00:00:00.000Z") ? text.slice(5, 10) : text.slice(11, 16);
}

function draw(place, samples) {
  const { ink, line, series } = colours();
  const names = place.dataset.chart.split(" ");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  place.replaceChildren();
  new uPlot(
    {
      width: place.clientWidth,
      height: 160,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { x: { range: (_, least, most) => (least === most ? [least - 60, most + 60] : [least, most]) }, y: { range: (_, least, most) => [0, Math.max(1e-3, most * 1.1)] } },
      axes: [{ ...axis, incrs: TICKS, values: (_, at) => at.map(label) }, { ...axis, size: 56 }],
      series: [
        { label: "at", value: (_, at) => (at == null ? "–" : new Date(at * 1e3).toISOString().slice(5, 16).replace("T", " ")) },
        ...names.map((name, nth) => ({
          label: name.replace("dead_letters", "dead letters").replace(/^(waited|worked)_/, ""),
          stroke: series[nth % series.length],
          width: 1.5,
          points: { size: 5 },
        })),
      ],
    },
    [samples.map((sample) => sample.at), ...names.map((name) => samples.map((sample) => sample[name]))],
    place,
  );
}

async function chart(group) {
  const answer = await fetch(group.dataset.samples);
  if (!answer.ok) return;
  const samples = await answer.json();
  const all = () => group.querySelectorAll("[data-chart]").forEach((place) => draw(place, samples));
  all();
  group.dataset.drawn = "yes";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  let width = group.clientWidth;
  new ResizeObserver(() => {
    if (group.clientWidth !== width) all();
    width = group.clientWidth;
  }).observe(group);
}

function select(all) {
  const boxes = document.querySelectorAll(`input[name="${all.dataset.all}"]`);
  const said = document.querySelector(`[data-selected="${all.dataset.all}"]`);
  const count = () => {
    const checked = [...boxes].filter((box) => box.checked).length;
    all.checked = checked === boxes.length;
    all.indeterminate = checked > 0 && checked < boxes.length;
    said.textContent = `${checked} of ${boxes.length} selected`;
  };
  all.hidden = false;
  all.addEventListener("change", () => (boxes.forEach((box) => (box.checked = all.checked)), count()));
  boxes.forEach((box) => box.addEventListener("change", count));
  count();
}

document.addEventListener("keydown", (event) => {
  const field = document.querySelector('[data-focus="/"]');
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && field && !typing) {
    event.preventDefault();
    field.focus();
  }
});

follow();
document.querySelectorAll("[data-samples]").forEach(chart);
document.querySelectorAll("[data-all]").forEach(select);
