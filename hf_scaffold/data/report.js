// Search fields: they show the rows whose text has what is typed. Without JavaScript all rows are there.
for (const input of document.querySelectorAll("input[data-filters]")) {
  const rows = [...document.getElementById(input.dataset.filters).children];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const field = input.closest(".filter");
  const output = field.querySelector("output");
  const show = () => {
    const wanted = input.value.toLowerCase().replace(/ /g, "␣");
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !texts[i].includes(wanted);
      shown += !row.hidden;
    });
    output.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  input.addEventListener("input", show);
  field.hidden = false;
  show();
}
