"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const chooser = document.getElementById("view");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Charts name their colours as the style sheet does.
  const painted = (value, key) => {
    if (key === "color") return Array.isArray(value) ? value.map(color) : color(value);
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, painted(each, name)]));
  };

  const axis = (given) => ({
    gridcolor: color("--line"), linecolor: color("--line"), zerolinecolor: color("--line"),
    automargin: true, fixedrange: true, ...given,
  });

  const layout = (given, width) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: color("--muted") },
    margin: { l: 52, r: 12, t: 8, b: 8 }, height: width < 480 ? 400 : 340, autosize: true,
    hovermode: "x unified",
    hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") } },
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", traceorder: "normal" },
    showlegend: true,
    ...given,
    xaxis: axis({ showgrid: false, tickangle: 0, nticks: Math.max(3, Math.floor(width / 75)), ...given.xaxis }),
    yaxis: axis(given.yaxis),
  });

  const draw = (name, chart) => {
    const place = document.getElementById(name);
    place.classList.toggle("nothing", !chart);
    if (!chart) {
      Plotly.purge(place);
      place.textContent = "There is nothing to show.";
      return;
    }
    if (!place.data) place.textContent = "";
    Plotly.react(place, chart.data.map((trace) => painted(trace)), layout(structuredClone(chart.layout), place.clientWidth), {
      displayModeBar: false, responsive: true,
    });
  };

  const show = () => {
    const view = chooser ? chooser.value : "0";
    for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== view;
    for (const [name, views] of Object.entries(charts)) draw(name, views[view]);
  };

  chooser?.addEventListener("change", show);
  dark.addEventListener("change", show);
  show();
})();
