"use strict";
// The legend of a chart shows the values under the pointer, which are those of a row of the table below the chart.
for (const plot of document.querySelectorAll(".plot")) {
  const section = plot.closest("section");
  const rows = section.querySelectorAll("tbody tr");
  const said = section.querySelectorAll(".legend output");
  const show = (row) => said.forEach((each, index) => (each.textContent = row ? row.cells[index].textContent : ""));
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * rows.length);
    plot.style.setProperty("--at", `${(100 * (index + 0.5)) / rows.length}%`);
    show(rows[index]);
  });
  plot.addEventListener("pointerleave", () => {
    plot.style.removeProperty("--at");
    show(null);
  });
}
