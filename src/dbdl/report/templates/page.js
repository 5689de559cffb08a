"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script");
  const byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, className = "", textContent = "") =>
    Object.assign(document.createElement(tag), { className, textContent });
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const data = JSON.parse(byId("data").textContent);

  // Calls move with what steps() has for the key that is pressed on an element.
  const onKeys = (element, steps, move) => element.addEventListener("keydown", (e) => {
    const step = steps()[e.key];
    if (step === undefined || e.ctrlKey || e.altKey || e.metaKey) return;
    e.preventDefault();
    move(step);
  });

  // ------------------------------------------------------------------ theme
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("dbdl-theme"); } catch { /* a file may have no storage */ }
  const setTheme = (name) => {
    theme = themes.includes(name) ? name : "system";
    root.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
  };
  setTheme(theme);
  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
    try { localStorage.setItem("dbdl-theme", theme); } catch { /* the same */ }
  });

  // ------------------------------------------------------------------ a note beside the pointer
  const tip = Object.assign(make("div"), { id: "tip", hidden: true });
  document.body.append(tip);
  const showTip = (text, e) => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${clamp(e.clientX + 14, 0, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${clamp(e.clientY + 16, 0, innerHeight - tip.offsetHeight - 8)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const element of all("[data-tip]")) {
    element.addEventListener("pointermove", (e) => showTip(element.dataset.tip, e));
    element.addEventListener("pointerleave", hideTip);
  }

  // ------------------------------------------------------------------ tables that can be sorted
  for (const table of all("table.sortable")) {
    const headings = all("thead th", table);
    headings.forEach((heading, column) => {
      const button = Object.assign(make("button", "", heading.textContent), { type: "button" });
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((h) => h.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [a, b].map((row) => row.cells[column].dataset.value);
          if (x === "" || y === "") return (x === "") - (y === ""); // empty cells come last
          const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // ------------------------------------------------------------------ atoms and their probabilities
  const selection = data.selection && (() => {
    const bytes = Uint8Array.from(atob(data.selection.values), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const order = data.selection.order;
    const at = (c, column) => view.getUint16(2 * (c * order.length + column), true) / 65535;
    return { order, at, of: (c, k) => at(c, order.indexOf(k)) };
  })();
  const atomPicture = (k, className) => {
    const picture = make("span", `picture sheet-atoms ${className}`);
    picture.style.backgroundPosition = data.atoms[k].at;
    return picture;
  };

  // ------------------------------------------------------------------ heat maps
  // For a cell: words for the tip, more words for the line below the map, and a picture.
  const heatKinds = {
    selection: (c, column) => {
      const k = selection.order[column];
      const atom = data.atoms[k];
      return [
        `class ${data.names[c]}, atom ${k}: probability ${selection.at(c, column).toFixed(3)}`,
        atom.c === c ? "" : `; used most by ${data.names[atom.c]} (${atom.p.toFixed(3)})`,
        atom.at ? atomPicture(k, "small") : "",
      ];
    },
    confusion: (c, column) => {
      const total = data.confusion[c].reduce((a, b) => a + b, 0);
      const what = c === column ? "classified correctly" : `mistaken for ${data.names[column]}`;
      return [`${data.names[c]}: ${data.confusion[c][column]} of ${total} ${what}`, "", ""];
    },
  };
  for (const figure of all("[data-heat]")) {
    const describe = heatKinds[figure.dataset.heat];
    const [plot, cursor, readout] = [".heat-plot", ".heat-cursor", ".readout"].map((s) => figure.querySelector(s));
    const nRows = data.names.length;
    const nColumns = figure.dataset.heat === "selection" ? selection.order.length : nRows;
    let [row, column] = [0, 0];
    const go = (toRow, toColumn) => {
      row = clamp(toRow, 0, nRows - 1);
      column = clamp(toColumn, 0, nColumns - 1);
      cursor.hidden = false;
      Object.assign(cursor.style, {
        left: `${100 * column / nColumns}%`, width: `${100 / nColumns}%`,
        top: `${100 * row / nRows}%`, height: `${100 / nRows}%`,
      });
      const [words, more, picture] = describe(row, column);
      readout.replaceChildren(picture, words + more);
      return words;
    };
    plot.addEventListener("pointermove", (e) => {
      const box = plot.getBoundingClientRect();
      const [down, across] = [(e.clientY - box.top) / box.height, (e.clientX - box.left) / box.width];
      showTip(go(Math.floor(nRows * down), Math.floor(nColumns * across)), e);
    });
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("focus", () => go(row, column));
    onKeys(plot, () => ({
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [0, -10], PageDown: [0, 10], Home: [0, -nColumns], End: [0, nColumns],
    }), ([down, across]) => go(row + down, column + across));
  }

  // ------------------------------------------------------------------ gallery of atoms
  const gallery = document.querySelector(".gallery");
  if (byId("atom-order")) {
    const buttons = all(".atom", gallery); // as written: by class
    const number = (button) => Number(button.dataset.atom);
    const [orderBox, classBox] = [byId("atom-order"), byId("atom-class")];
    const orders = {
      class: () => 0,
      probability: (a, b) => data.atoms[number(b)].p - data.atoms[number(a)].p,
      uses: (a, b) => data.atoms[number(b)].u - data.atoms[number(a)].u,
      number: (a, b) => number(a) - number(b),
    };
    const visible = () => all(".atom:not([hidden])", gallery);
    // The Tab key stops once for all atoms; arrows move among them.
    const setStop = (button) => {
      for (const other of buttons) other.tabIndex = other === button ? 0 : -1;
    };
    const arrange = () => {
      gallery.append(...[...buttons].sort(orders[orderBox.value]));
      for (const button of buttons) {
        button.hidden = classBox.value !== "" && data.atoms[number(button)].c !== Number(classBox.value);
      }
      const shown = visible();
      byId("atom-count").textContent = `${shown.length} atom${shown.length === 1 ? "" : "s"}`;
      setStop(shown[0]);
    };
    const meter = (name, value, largest) => {
      const [line, holder, bar] = [make("div", "meter"), make("span"), make("i")];
      bar.style.width = `${100 * value / largest}%`;
      holder.append(bar);
      line.append(make("span", "", name), holder, make("b", "", value.toFixed(2)));
      return line;
    };
    const choose = (button) => {
      const k = number(button);
      const atom = data.atoms[k];
      for (const other of buttons) other.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      setStop(button);
      const classes = data.names.map((name, c) => [name, selection.of(c, k)]).sort((a, b) => b[1] - a[1]).slice(0, 5);
      const [best, worst] = atom.w.map(([c, value]) => `${data.names[c]} (${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)})`);
      byId("atom-detail").replaceChildren(
        atomPicture(k, ""),
        make("h3", "", `Atom ${k}`),
        make("p", "soft", "Probability that a row uses it"),
        ...classes.map(([name, value]) => meter(name, value, classes[0][1] || 1)),
        make("p", "", `In a code, it speaks for ${best} and against ${worst}.`),
        make("p", "", `Used by ${atom.u} test row${atom.u === 1 ? "" : "s"}.`),
        atom.f ? make("p", "", `Largest at ${atom.f.join(", ")}.`) : "",
      );
    };
    gallery.addEventListener("click", (e) => {
      const button = e.target.closest(".atom");
      if (button) choose(button);
    });
    onKeys(gallery, () => {
      const shown = visible();
      const perLine = shown.filter((b) => b.offsetTop === shown[0].offsetTop).length;
      return { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perLine, ArrowDown: perLine, Home: -Infinity, End: Infinity };
    }, (step) => {
      const shown = visible();
      const next = shown[clamp(shown.indexOf(document.activeElement) + step, 0, shown.length - 1)];
      next.focus();
      choose(next);
    });
    orderBox.addEventListener("change", arrange);
    classBox.addEventListener("change", arrange);
    arrange();
    if (buttons.length) choose(visible()[0]);
  }

  // ------------------------------------------------------------------ charts along the sweeps
  for (const figure of all("[data-chart]")) {
    const { sweeps, texts } = data.charts[Number(figure.dataset.chart)];
    const [start, end] = [Number(figure.dataset.start), Number(figure.dataset.end)];
    const [drawing, cursor, readout] = ["svg", ".cursor-line", ".readout"].map((s) => figure.querySelector(s));
    const last = sweeps.length - 1;
    let now = last;
    const go = (i) => {
      now = clamp(i, 0, last);
      const x = start + (last ? now / last : 0) * (end - start);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.removeAttribute("hidden");
      readout.textContent = `sweep ${sweeps[now]}: ${texts[now]}`;
    };
    go(now); // so that the last values can be read at once
    cursor.setAttribute("hidden", "");
    drawing.addEventListener("pointermove", (e) => {
      const box = drawing.getBoundingClientRect();
      const x = drawing.viewBox.baseVal.width * (e.clientX - box.left) / box.width;
      go(Math.round(last * (x - start) / (end - start)));
    });
    figure.addEventListener("focus", () => go(now));
    onKeys(figure, () => ({ ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }), (step) => go(now + step));
  }

  // ------------------------------------------------------------------ the Tab key stops only at tables that scroll
  // A table that is wider than the page says that there are more columns, until its end is in view.
  const markMore = (region) => {
    const more = region.scrollLeft + region.clientWidth < region.scrollWidth - 2;
    region.parentElement.classList.toggle("more", more);
    region.parentElement.querySelector(".scroll-hint").hidden = !more;
  };
  const markScrolling = () => {
    for (const region of all(".scroll")) {
      const scrolls = region.scrollHeight > region.clientHeight + 1 || region.scrollWidth > region.clientWidth + 1;
      if (scrolls) region.tabIndex = 0; else region.removeAttribute("tabindex");
      markMore(region);
    }
  };
  for (const region of all(".scroll")) region.addEventListener("scroll", () => markMore(region));
  markScrolling();
  addEventListener("resize", markScrolling);
  for (const fold of all("details")) fold.addEventListener("toggle", markScrolling);

  // ------------------------------------------------------------------ tables that can be saved
  if (!document.querySelector(".downloads")) {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const asCsv = (table) => [...table.rows]
      .map((row) => [...row.cells].map((cell) => quoted(cell.textContent.trim().replaceAll("−", "-"))).join(","))
      .join("\r\n");
    for (const table of all("table.sortable")) {
      const button = Object.assign(make("button", "save", "save as CSV"), { type: "button" });
      const name = table.caption.textContent.replace(/\W+/g, "-").toLowerCase();
      table.caption.append(button);
      button.addEventListener("click", () => {
        const href = `data:text/csv;charset=utf-8,${encodeURIComponent(asCsv(table))}`;
        Object.assign(make("a"), { href, download: `${name}.csv` }).click();
      });
    }
  }

  // ------------------------------------------------------------------ on paper decisions are open
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details.sample:not([open])");
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });
})();
