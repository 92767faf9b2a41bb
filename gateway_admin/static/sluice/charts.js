// Draws the charts of a tenant's usage with the theme's own Chart.js, in its colours, light and dark.
/* global Chart */
const ranges = Object.fromEntries(JSON.parse(document.getElementById("usage-charts").textContent).map((range) => [range.name, range]));
const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 6 });
const short = new Intl.NumberFormat(document.documentElement.lang, { notation: "compact" });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--sluice-${name}`).trim();

const options = () => ({
  animation: false,
  maintainAspectRatio: false,
  scales: {
    x: { stacked: true, grid: { display: false }, ticks: { color: colour("quiet"), maxRotation: 0, autoSkipPadding: 16 } },
    y: { stacked: true, beginAtZero: true, grid: { color: colour("line") }, ticks: { color: colour("quiet"), callback: (value) => short.format(value) } },
  },
  plugins: {
    legend: { position: "bottom", labels: { boxHeight: 10, boxWidth: 10, color: colour("text") } },
    tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${numbers.format(raw)}` } },
  },
});

const draw = (canvas) => {
  const [range, place] = canvas.dataset.chart.split(":");
  const { data } = ranges[range].charts[place];
  const datasets = data.sets.map((set) => ({ label: set.label, data: set.values, backgroundColor: colour(set.colour) }));
  Chart.getChart(canvas)?.destroy();
  return new Chart(canvas, { type: "bar", data: { labels: data.labels, datasets }, options: options() });
};

const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);

drawAll();
// The theme puts "dark" on the page when the operator switches.
new MutationObserver(drawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
