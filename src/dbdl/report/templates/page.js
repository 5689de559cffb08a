"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script");
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, className, content) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content !== undefined) element.textContent = content;
    return element;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // ------------------------------------------------------------------ theme
  const themes = ["system", "light", "dark"];
  const themeButton = document.getElementById("theme");
  const remember = (theme) => { try { localStorage.setItem("dbdl-theme", theme); } catch { /* a file may have no storage */ } };
  const remembered = () => { try { return localStorage.getItem("dbdl-theme"); } catch { return null; } };
  const setTheme = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    themeButton.textContent = `Theme: ${theme}`;
    themeButton.dataset.now = theme;
  };
  setTheme(themes.includes(remembered()) ? remembered() : "system");
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(themeButton.dataset.now) + 1) % themes.length];
    setTheme(next);
    remember(next);
  });

  // ------------------------------------------------------------------ a note beside the pointer
  const tip = make("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = `${clamp(x + 14, 0, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${clamp(y + 16, 0, innerHeight - tip.offsetHeight - 8)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const element of all("[data-tip]")) {
    element.addEventListener("pointermove", (e) => showTip(element.dataset.tip, e.clientX, e.clientY));
    element.addEventListener("pointerleave", hideTip);
  }

  // ------------------------------------------------------------------ tables that can be sorted
  for (const table of all("table.sortable")) {
    const headings = all("thead th", table);
    const body = table.tBodies[0];
    headings.forEach((heading, column) => {
      const button = make("button", "", heading.textContent);
      button.type = "button";
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((h) => h.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.value;
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === "" || y === "") return (x === "") - (y === ""); // nothing comes last
          const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
          return down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  // ------------------------------------------------------------------ atoms and their probabilities
  const selection = data.selection && (() => {
    const bytes = Uint8Array.from(atob(data.selection.values), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const order = data.selection.order;
    const place = [];
    order.forEach((k, column) => { place[k] = column; });
    const at = (c, column) => view.getUint16(2 * (c * order.length + column), true) / 65535;
    return { order, at, of: (c, k) => at(c, place[k]) };
  })();
  const atomPicture = (k, className) => {
    const picture = make("span", `picture sheet-atoms ${className}`);
    picture.style.backgroundPosition = data.atoms[k].at;
    return picture;
  };

  // ------------------------------------------------------------------ heat maps
  const heatKinds = {
    selection: {
      columns: () => selection.order.length,
      say: (c, column) => {
        const k = selection.order[column];
        return `class ${data.names[c]}, atom ${k}: probability ${selection.at(c, column).toFixed(3)}`;
      },
      show: (c, column) => {
        const k = selection.order[column];
        return data.atoms[k].at ? atomPicture(k, "small") : "";
      },
      more: (c, column) => {
        const atom = data.atoms[selection.order[column]];
        return atom.c === c ? "" : `; used most by ${data.names[atom.c]} (${atom.p.toFixed(3)})`;
      },
    },
    confusion: {
      columns: () => data.names.length,
      say: (c, column) => {
        const row = data.confusion[c];
        const total = row.reduce((a, b) => a + b, 0);
        const what = c === column ? "classified right" : `taken for ${data.names[column]}`;
        return `${data.names[c]}: ${row[column]} of ${total} ${what}`;
      },
      show: () => "",
      more: () => "",
    },
  };
  for (const figure of all("[data-heat]")) {
    const kind = heatKinds[figure.dataset.heat];
    const [plot, cursor, readout] = [".heat-plot", ".heat-cursor", ".readout"].map((s) => figure.querySelector(s));
    const [nRows, nColumns] = [data.names.length, kind.columns()];
    const at = { c: 0, column: 0 };
    const go = (c, column) => {
      at.c = clamp(c, 0, nRows - 1);
      at.column = clamp(column, 0, nColumns - 1);
      cursor.hidden = false;
      Object.assign(cursor.style, {
        left: `${100 * at.column / nColumns}%`, width: `${100 / nColumns}%`,
        top: `${100 * at.c / nRows}%`, height: `${100 / nRows}%`,
      });
      readout.replaceChildren(kind.show(at.c, at.column), kind.say(at.c, at.column) + kind.more(at.c, at.column));
    };
    plot.addEventListener("pointermove", (e) => {
      const box = plot.getBoundingClientRect();
      go(Math.floor(nRows * (e.clientY - box.top) / box.height), Math.floor(nColumns * (e.clientX - box.left) / box.width));
      showTip(kind.say(at.c, at.column), e.clientX, e.clientY);
    });
    plot.addEventListener("pointerleave", hideTip);
    plot.addEventListener("focus", () => go(at.c, at.column));
    plot.addEventListener("keydown", (e) => {
      const steps = {
        ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
        PageUp: [0, -10], PageDown: [0, 10], Home: [0, -nColumns], End: [0, nColumns],
      };
      const step = steps[e.key];
      if (!step || e.ctrlKey || e.altKey || e.metaKey) return;
      e.preventDefault();
      go(at.c + step[0], at.column + step[1]);
    });
  }

  // ------------------------------------------------------------------ gallery of atoms
  const gallery = document.querySelector(".gallery");
  if (gallery) {
    const buttons = all(".atom", gallery);
    const number = (button) => Number(button.dataset.atom);
    const detail = document.getElementById("atom-detail");
    const [orderBox, classBox, count] = ["atom-order", "atom-class", "atom-count"].map((id) => document.getElementById(id));
    const place = new Map(buttons.map((button, i) => [button, i])); // as written: by class
    const orders = {
      class: (a, b) => place.get(a) - place.get(b),
      probability: (a, b) => data.atoms[number(b)].p - data.atoms[number(a)].p,
      uses: (a, b) => data.atoms[number(b)].u - data.atoms[number(a)].u,
      number: (a, b) => number(a) - number(b),
    };
    const visible = () => all(".atom:not([hidden])", gallery);
    // one stop of the Tab key for all atoms; arrows move among them
    const roving = (button) => {
      for (const other of buttons) other.tabIndex = -1;
      if (button) button.tabIndex = 0;
    };
    const arrange = () => {
      gallery.append(...[...buttons].sort(orders[orderBox.value]));
      for (const button of buttons) {
        button.hidden = classBox.value !== "" && data.atoms[number(button)].c !== Number(classBox.value);
      }
      const shown = visible();
      count.textContent = `${shown.length} atom${shown.length === 1 ? "" : "s"}`;
      roving(shown[0]);
    };
    const meter = (name, value, largest) => {
      const line = make("div", "meter");
      const bar = make("i");
      bar.style.width = `${100 * value / largest}%`;
      const holder = make("span");
      holder.append(bar);
      line.append(make("span", "", name), holder, make("b", "", value.toFixed(2)));
      return line;
    };
    const choose = (button) => {
      const k = number(button);
      const atom = data.atoms[k];
      for (const other of buttons) other.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      roving(button);
      const classes = data.names.map((name, c) => [name, selection.of(c, k)]).sort((a, b) => b[1] - a[1]).slice(0, 5);
      const [best, worst] = atom.w;
      const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
      const lines = [
        atomPicture(k, ""),
        make("h3", "", `Atom ${k}`),
        make("p", "soft", "probability that a row uses it"),
        ...classes.map(([name, value]) => meter(name, value, classes[0][1] || 1)),
        make("p", "", `In a code it speaks for ${data.names[best[0]]} (${signed(best[1])}) and against ${data.names[worst[0]]} (${signed(worst[1])}).`),
        make("p", "", `Used by ${atom.u} test row${atom.u === 1 ? "" : "s"}.`),
      ];
      if (atom.f) lines.push(make("p", "", `Largest at ${atom.f.join(", ")}.`));
      detail.replaceChildren(...lines);
    };
    gallery.addEventListener("click", (e) => {
      const button = e.target.closest(".atom");
      if (button) choose(button);
    });
    gallery.addEventListener("keydown", (e) => {
      const shown = visible();
      const here = shown.indexOf(document.activeElement);
      if (here < 0) return;
      const perLine = shown.filter((b) => b.offsetTop === shown[0].offsetTop).length;
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perLine, ArrowDown: perLine, Home: -here, End: shown.length };
      if (!(e.key in steps)) return;
      e.preventDefault();
      const next = shown[clamp(here + steps[e.key], 0, shown.length - 1)];
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
    const chart = data.charts[Number(figure.dataset.chart)];
    const [drawing, line, readout] = ["svg", ".cursor-line", ".readout"].map((s) => figure.querySelector(s));
    let now = chart.sweeps.length - 1;
    const go = (i) => {
      now = clamp(i, 0, chart.sweeps.length - 1);
      const share = chart.sweeps.length > 1 ? now / (chart.sweeps.length - 1) : 0;
      const x = chart.start + share * (chart.end - chart.start);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      line.removeAttribute("hidden");
      const values = chart.lines.map((values) => values[now]);
      readout.textContent = `sweep ${chart.sweeps[now]}: ${values.join("; ")}`;
    };
    go(now); // so that the last values can be read at once
    line.setAttribute("hidden", "");
    drawing.addEventListener("pointermove", (e) => {
      const box = drawing.getBoundingClientRect();
      const x = chart.width * (e.clientX - box.left) / box.width;
      go(Math.round((chart.sweeps.length - 1) * (x - chart.start) / (chart.end - chart.start)));
    });
    figure.addEventListener("focus", () => go(now));
    figure.addEventListener("keydown", (e) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -now, End: chart.sweeps.length };
      if (!(e.key in steps)) return;
      e.preventDefault();
      go(now + steps[e.key]);
    });
  }

  // ------------------------------------------------------------------ tables that need no scrolling
  // are no stop of the Tab key
  const markScrolling = () => {
    for (const region of all(".scroll")) {
      const scrolls = region.scrollHeight > region.clientHeight + 1 || region.scrollWidth > region.clientWidth + 1;
      if (scrolls) region.tabIndex = 0; else region.removeAttribute("tabindex");
    }
  };
  markScrolling();
  addEventListener("resize", markScrolling);
  for (const fold of all("details")) fold.addEventListener("toggle", markScrolling);

  // ------------------------------------------------------------------ paper has no lines to click
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });
})();
