// Sort a table by the heading pressed: by data-key where a cell has one, else by its text.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, k) => {
    const cell = row.cells[k];
    return cell.dataset.key === undefined ? cell.textContent.trim() : Number(cell.dataset.key.replace("inf", "Infinity"));
  };
  heads.forEach((head, k) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [key(row, k), row]);
    const missing = (v) => v === Infinity;
    rows.sort(([a], [b]) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }));
}
