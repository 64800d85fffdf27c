// Filters rows while a user types, opens Airflow's pages outside of the frame, draws charts, triggers a run.
(function () {
  "use strict";

  function filterRows() {
    var search = document.getElementById("search");
    var rows = Array.from(document.querySelectorAll("#tables tbody tr"));
    var count = document.getElementById("count");
    if (!search || !count) return;
    var names = rows.map(function (row) { return row.cells[0].textContent.toLowerCase(); });
    search.addEventListener("input", function () {
      var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      var shown = 0;
      rows.forEach(function (row, place) {
        var matches = words.every(function (word) { return names[place].includes(word); });
        row.hidden = !matches;
        shown += matches ? 1 : 0;
      });
      var all = Number(count.dataset.all);
      count.textContent = all > rows.length
        ? shown + " of the first " + rows.length + " tables; Enter searches all " + all
        : shown + " of " + rows.length + " tables";
    });
  }

  // Airflow's frame may not leave itself by a link. Its own page may, and it is of the same origin.
  function leaveFrame() {
    if (window.parent === window) {
      // Without the frame there is no way back.
      document.getElementById("home").hidden = false;
      return;
    }
    document.addEventListener("click", function (event) {
      var link = event.target.closest && event.target.closest("a[target=_parent]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      var outside = window.parent.document.createElement("a");
      outside.href = link.href;
      window.parent.document.body.append(outside);
      outside.click();
      outside.remove();
    });
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function drawChart(box) {
    var data = JSON.parse(box.dataset.chart);
    if (!data.x || data.x.length === 0 || typeof uPlot === "undefined") {
      box.remove();
      return;
    }
    var colours = [colour("--first"), colour("--second"), colour("--third")];
    var axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 } };
    var bars = data.kind === "bars" ? uPlot.paths.bars({ size: [0.6, 40] }) : undefined;
    var series = data.series.map(function (each, place) {
      return {
        label: each.name, stroke: colours[place], fill: bars ? colours[place] : undefined, width: 2,
        paths: bars, points: { show: !bars || Boolean(data.time), size: 8, fill: colours[place] }, spanGaps: true,
        scale: each.scale || "y", value: function (_, at) { return at == null ? "" : at.toLocaleString("en"); },
      };
    });
    // Rows and files have little in common: a second scale has an axis of its own, on the right.
    var scales = series.map(function (each) { return each.scale; }).filter(function (name, place, all) { return all.indexOf(name) === place; });
    function labelOf(name) {
      return series.filter(function (each) { return each.scale === name; }).map(function (each) { return each.label; }).join(", ");
    }
    var axes = scales.map(function (name, place) {
      return Object.assign({ scale: name, label: labelOf(name), size: 80, side: place ? 1 : 3 }, axis, place ? { grid: { show: false } } : {});
    });
    var x = Object.assign({}, axis);
    if (data.labels) {
      x.splits = function () { return data.x; };
      x.values = function (_, places) { return places.map(function (place) { return data.labels[place]; }); };
    }
    function wordsOf(at) {
      return data.labels ? data.labels[at] || "" : new Date(1000 * at).toISOString().slice(0, 16).replace("T", " ") + " UTC";
    }
    var range = data.labels ? { time: false, range: [-0.6, data.x.length - 0.4] } : { time: data.time };
    var last = data.x[data.x.length - 1];
    if (data.time && data.x[0] === last) range.range = [last - 3600, last + 3600];
    var chart = new uPlot(
      {
        // As all times of the page, and not in the browser's zone.
        tzDate: function (at) { return uPlot.tzDate(new Date(1000 * at), "Etc/UTC"); },
        width: box.clientWidth || 600, height: 200, scales: { x: range }, axes: [x].concat(axes),
        series: [{ label: data.time ? "when" : "size", value: function (_, at) { return at == null ? "" : wordsOf(at); } }].concat(series),
      },
      [data.x].concat(data.series.map(function (each) { return each.values; })),
      box
    );
    window.addEventListener("resize", function () { chart.setSize({ width: box.clientWidth, height: 200 }); });
  }

  function triggerRun(form) {
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      var output = form.querySelector("output");
      var button = form.querySelector("button");
      button.disabled = true;
      output.textContent = "Starting ...";
      var fields = form.elements;
      var conf = {
        lake_conn_id: fields.lake_conn_id.value, table: fields.table.value, action: fields.action.value,
        dry_run: fields.dry_run.checked,
      };
      fetch(form.dataset.url, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ logical_date: null, conf: conf }),
      }).then(function (answer) {
        return answer.json().catch(function () { return {}; }).then(function (body) {
          output.textContent = "";
          if (!answer.ok) {
            output.textContent = "Airflow refused it: " + answer.status + " " + (typeof body.detail === "string" ? body.detail : JSON.stringify(body.detail || ""));
            return;
          }
          var link = document.createElement("a");
          link.target = "_parent";
          link.href = form.dataset.runs + encodeURIComponent(body.dag_run_id);
          link.textContent = "Run " + body.dag_run_id;
          output.append(link);
        });
      }).catch(function () {
        output.textContent = "Airflow did not answer; try again.";
      }).finally(function () { button.disabled = false; });
    });
  }

  filterRows();
  leaveFrame();
  document.querySelectorAll("[data-chart]").forEach(drawChart);
  document.querySelectorAll("form.trigger").forEach(triggerRun);
})();
