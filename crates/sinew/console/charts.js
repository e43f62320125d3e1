// Charts as SVG, each with a table that has the same numbers. Every mark is a link to the records behind it.

import { count, duration, href, html, time } from "./base.js";
import { Table } from "./parts.js";

const SERIES = [["done", "Done"], ["asked", "Asked"], ["refused", "Refused"], ["failed", "Failed"]];
const WIDTH = 960;
const HEIGHT = 150;
const BASE = HEIGHT - 22;
const iso = (ms) => new Date(ms).toISOString();

function filterOf(series, charts, interval) {
	const until = interval.start_ms + charts.interval_ms;
	const outcome = { done: "done", failed: "failed" }[series];
	return { since: iso(interval.start_ms), until: iso(until), outcome,
		kind: { refused: "refusal", asked: "approval" }[series] };
}

/** Round number at or above the largest bar. */
function ceiling(most) {
	const unit = 10 ** Math.floor(Math.log10(Math.max(1, most)));
	return [1, 2, 4, 5, 10].map((n) => n * unit).find((n) => n >= most) ?? most;
}

function ticks(charts) {
	const minutes = (charts.to_ms - charts.from_ms) / 60000;
	const step = [1, 5, 10, 15, 30, 60, 180, 360, 1440].find((n) => minutes / n <= 8) * 60000;
	const list = [];
	for (let at = Math.ceil(charts.from_ms / step) * step; at < charts.to_ms; at += step) list.push(at);
	return list;
}

/** Calls by outcome and the modes, on one time axis. */
export function CallChart({ charts }) {
	const most = ceiling(Math.max(4, ...charts.intervals.map((it) => it.done + it.asked + it.refused + it.failed)));
	const x = (ms) => ((ms - charts.from_ms) / (charts.to_ms - charts.from_ms)) * WIDTH;
	const bar = WIDTH / charts.intervals.length;
	const scale = (BASE - 16) / most;
	return html`<figure class="chart"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Calls by outcome">
		${[0.5, 1].map((part) => html`<g class="grid"><line x1="0" x2=${WIDTH} y1=${BASE - most * part * scale} y2=${BASE - most * part * scale} />
			<text x="2" y=${BASE - most * part * scale - 3}>${count(most * part)}</text></g>`)}
		${ticks(charts).map((at) => html`<g class="grid"><line x1=${x(at)} x2=${x(at)} y1="4" y2=${BASE} /></g>`)}
		${charts.intervals.map((it) => {
			let y = BASE;
			return SERIES.filter(([key]) => it[key] > 0).map(([key, name]) => {
				const height = Math.max(2, it[key] * scale);
				y -= height;
				return html`<a href=${href("ledger", filterOf(key, charts, it))} tabindex="-1" aria-hidden="true"><rect class=${`s-${key}`} x=${x(it.start_ms) + 1} y=${y} width=${bar - 2} height=${height - 0.5}>
					<title>${`${time(it.start_ms)}: ${it[key]} ${name.toLowerCase()}`}</title></rect></a>`;
			});
		})}
		<line class="axis" x1="0" x2=${WIDTH} y1=${BASE} y2=${BASE} />
		${charts.modes.map((it) => html`<rect class=${`strip m-${it.mode}`} x=${x(it.from_ms)} width=${Math.max(2, x(it.to_ms) - x(it.from_ms))} y=${BASE + 3} height="5"><title>${it.mode}</title></rect>`)}
		${ticks(charts).map((at) => html`<text class="tick" x=${x(at)} y=${HEIGHT - 2} text-anchor=${x(at) > WIDTH - 40 ? "end" : "middle"}>${time(at).replace(/:00$/, "")}</text>`)}
	</svg>
	<figcaption>${SERIES.map(([key, name]) => html`<a class="key" href=${href("ledger", { ...filterOf(key, charts, charts.total), until: "" })}><i class=${`s-${key}`} aria-hidden="true"></i>${name} <b>${count(charts.total[key])}</b></a>`)}
		<details><summary>As a table</summary><${Table} caption="Calls by outcome and interval" numbers=${[1, 2, 3, 4]} head=${["From", ...SERIES.map(([, name]) => name)]}
			rows=${charts.intervals.filter((it) => SERIES.some(([key]) => it[key])).map((it) => [time(it.start_ms), ...SERIES.map(([key, name]) => (it[key] ? html`<a href=${href("ledger", filterOf(key, charts, it))} aria-label=${`${it[key]} ${name} at ${time(it.start_ms)}`}>${it[key]}</a>` : "0"))])} /></details></figcaption></figure>`;
}

/** Horizontal bars with their numbers. @param {{items:{name:string, value:number, href:string, note?:string}[], label:string}} props */
export function Bars({ items, label }) {
	const most = Math.max(1, ...items.map((it) => it.value));
	return html`<ol class="bars" aria-label=${label}>${items.map((it) => html`<li><a href=${it.href}><span class="name">${it.name}</span>
		<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="s-refused" width=${(it.value / most) * 100} height="6" rx="1" /></svg>
		<b class="num">${count(it.value)}</b></a>${it.note && html`<span class="quiet">${it.note}</span>`}</li>`)}</ol>`;
}

/** Stages of a call on its time axis. */
export function Waterfall({ page }) {
	const end = Math.max(1, page.latency_us ?? 0, ...page.stages.map((it) => it.start_us + it.duration_us));
	const share = (us) => (us / end) * 100;
	return html`<div class="waterfall" role="table" aria-label="Timeline of the call">
		<div role="row" class="sr"><span role="columnheader">Stage</span><span role="columnheader">Time axis</span><span role="columnheader">Duration</span></div>
		${page.stages.map((it) => html`<div role="row"><span role="rowheader">${it.stage.replaceAll("_", " ")}</span>
			<span role="cell" aria-label=${`starts after ${duration(it.start_us)}`}><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
				<rect class=${it.stage === "approve" ? "s-asked" : "s-stage"} x=${share(it.start_us)} width=${Math.max(0.4, share(it.duration_us))} y="1" height="8" rx="0.6" /></svg></span>
			<span role="cell" class="num">${duration(it.duration_us)}</span></div>`)}
		<p class="quiet">0 to ${duration(end)}</p></div>`;
}

/** Remaining budget as a bar. */
export function Budget({ name, used, of }) {
	const share = of > 0 ? Math.min(100, (used / of) * 100) : 0;
	return html`<div class="budget"><span>${name}</span><svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
		<rect class="rail" width="100" height="6" rx="1" /><rect class=${share > 80 ? "s-refused" : "s-done"} width=${share} height="6" rx="1" /></svg>
		<b class="num">${count(used)} / ${count(of)}</b></div>`;
}


