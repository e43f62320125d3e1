// Parts that several screens use: marks of outcomes, tables, dialogs, and the list that holds a million rows.

import { ApiFailure, api, duration, go, h, href, html, notify, time, useEffect, useLayoutEffect, useRef, useState } from "./base.js";

/** Symbol and word of an outcome: colour is never alone. */
const MARKS = { done: "●", failed: "▲", refused: "■", approval: "◆", permitted: "○", event: "–" };

export function Outcome({ row }) {
	return html`<span class=${`mark ${row.outcome}`}><i aria-hidden="true">${MARKS[row.outcome] ?? "–"}</i>${row.word}</span>`;
}

export function Mode({ mode }) {
	return html`<span class=${`mode m-${mode}`}>${mode || "unknown"}</span>`;
}

export function Failure({ error, retry }) {
	if (!error) return null;
	return html`<div class="failure" role="alert"><b>${error.message}</b>
		${error.code && error.code !== "failed" && html` <code>${error.code}</code>`}
		${typeof error.data === "string" && html`<span> ${error.data}</span>`}
		${retry && html` <button onClick=${retry}>Try again</button>`}</div>`;
}

/** Content of a screen while and after its data loads. */
export function Loaded({ from, children }) {
	if (from.error && !from.data) return html`<${Failure} error=${from.error} retry=${from.reload} />`;
	if (!from.data) return html`<p class="quiet" role="status">Loading…</p>`;
	return html`${from.error && html`<${Failure} error=${from.error} />`}${children(from.data)}`;
}

export function Empty({ children }) {
	return html`<p class="empty">${children}</p>`;
}

/**
 * A table with a caption for screen readers.
 * @param {{caption:string, head:any[], rows:any[][], numbers?:number[]}} props
 */
export function Table({ caption, head, rows, numbers = [] }) {
	const side = (n) => (numbers.includes(n) ? "num" : "");
	return html`<div class="scroll-x" tabindex="0" role="region" aria-label=${caption}><table>
		<caption class="sr">${caption}</caption>
		<thead><tr>${head.map((cell, n) => html`<th scope="col" class=${side(n)}>${cell}</th>`)}</tr></thead>
		<tbody>${rows.map((row) => html`<tr>${row.map((cell, n) => html`<td class=${side(n)}>${cell}</td>`)}</tr>`)}</tbody>
	</table></div>`;
}

/** Head of a column of buttons. */
export const ACTION = html`<span class="sr">Action</span>`;

export function Section({ title, note, children, actions }) {
	return html`<section class="card"><header><h2>${title}</h2>${note && html`<span class="quiet">${note}</span>`}
		${actions && html`<div class="actions">${actions}</div>`}</header>${children}</section>`;
}

export function ScreenTitle({ title, children }) {
	return html`<div class="title"><h1 tabindex="-1" id="screen-title">${title}</h1>${children}</div>`;
}

/* ---- dialogs ---- */

/** A modal dialog. The browser keeps the focus inside and returns it. */
export function Dialog({ title, close, children, wide }) {
	const ref = useRef(null);
	// A layout effect, so that the dialog is open before its content takes the focus.
	useLayoutEffect(() => {
		const before = document.activeElement;
		ref.current.showModal();
		return () => before?.focus?.();
	}, []);
	return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title"
		onCancel=${(event) => { event.preventDefault(); close(); }}>
		<header><h2 id="dialog-title">${title}</h2>
			<button type="button" class="plain" aria-label="Close" onClick=${close}>✕</button></header>
		${children}</dialog>`;
}

/**
 * Asks before an action. With `pin`, it asks for the operator PIN, which is sent once and stored nowhere.
 * `act` gets the PIN and the reason; what it throws is shown, and the dialog stays open.
 */
export function Confirm({ title, verb, danger, pin, pinIsSet, reason, act, close, children, wide }) {
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState(null);
	const opened = useRef(performance.now());
	const form = useRef(null);
	const blocked = pin && !pinIsSet;
	const submit = async (event) => {
		event.preventDefault();
		// A key or click that was meant for the page before.
		if (busy || blocked || performance.now() - opened.current < 400) return;
		setBusy(true);
		setError(null);
		const field = (name) => form.current.elements[name]?.value ?? "";
		try {
			await act({ pin: field("pin"), reason: field("reason") });
		} catch (failure) {
			if (!(failure instanceof ApiFailure)) throw failure;
			setError(failure);
			if (failure.code === "pin_wrong") form.current.elements.pin.value = "";
			(form.current.elements.pin ?? form.current.elements.go).focus();
		}
		setBusy(false);
	};
	useLayoutEffect(() => (form.current.querySelector("[autofocus], input, textarea") ?? form.current.elements.go).focus(), []);
	return html`<${Dialog} title=${title} close=${close} wide=${wide}><form ref=${form} onSubmit=${submit} autocomplete="off">
		${children}
		${reason !== undefined && html`<label>Reason, for the record<input name="reason" value=${reason} required maxlength="900" /></label>`}
		${pin && !blocked && html`<label>Operator PIN<input name="pin" type="password" required autocomplete="off" aria-describedby="pin-note" /></label>
			<p class="quiet" id="pin-note">Needed each time. The page does not keep it.</p>`}
		${blocked && html`<p class="failure">The web console loosens nothing without an operator PIN, and none is set.
			<a href="#/first" onClick=${close}>Set a PIN</a></p>`}
		<${Failure} error=${error} />
		<footer><button type="button" onClick=${close}>Cancel</button>
			<button name="go" class=${danger ? "danger" : "primary"} disabled=${busy || blocked}>${busy ? "…" : verb}</button></footer>
	</form><//>`;
}

/** Runs an action that only tightens, and reports its result. */
export async function tighten(text, name, params) {
	try {
		const result = await api(name, params);
		notify(text);
		return result;
	} catch (error) {
		notify(error.message, true);
		return null;
	}
}

/* ---- diff ---- */

const SIGNS = { old: "−", new: "+", hunk: "⋯" };

/** A change of a file, from lines with their kind or from unified text. */
export function Diff({ lines }) {
	return html`<div class="diff" role="group" aria-label="Changed lines">${lines.map(([kind, text]) => html`
		<div class=${`line ${kind}`}><i aria-hidden="true">${SIGNS[kind] ?? " "}</i>${SIGNS[kind] && kind !== "hunk" && html`<span class="sr">${kind === "old" ? "removed: " : "added: "}</span>`}<span>${text || " "}</span></div>`)}</div>`;
}

export function unifiedLines(text) {
	const kind = (line) => (line.startsWith("@@") ? "hunk" : /^(---|\+\+\+)/.test(line) ? "file" : { "-": "old", "+": "new" }[line[0]] ?? "same");
	return text.replace(/\n$/, "").split("\n").map((line) => [kind(line), ["old", "new", "same"].includes(kind(line)) ? line.slice(1) : line]);
}

/* ---- rows of the ledger ---- */

export const ROW_HEIGHT = 28;
/** Browsers limit the height of an element to some ten million pixels: a longer list is scaled. */
const MAX_HEIGHT = 8_000_000;

export function RowCells({ row }) {
	return [html`<span role="gridcell" class="c-time">${time(row.time_ms)}</span>`,
		html`<span role="gridcell" class="c-outcome"><${Outcome} row=${row} /></span>`,
		html`<span role="gridcell" class="c-tool">${row.tool || row.kind}</span>`,
		html`<span role="gridcell" class="c-target" title=${row.target}>${row.target}</span>`,
		html`<span role="gridcell" class="c-caller">${row.caller}</span>`,
		html`<span role="gridcell" class="c-took num">${duration(row.latency_us)}</span>`];
}

const HEAD = ["Time", "Outcome", "Tool", "Target", "Caller", "Took"];

/**
 * A list of any length, of which only the visible rows exist. `rowAt(n)` returns a row or nothing while it loads;
 * `need(from, to)` is told which rows are visible.
 */
export function VirtualList({ total, rowAt, need, open, label }) {
	const box = useRef(null);
	const [view, setView] = useState({ top: 0, height: 600 });
	const [selected, select] = useState(0);
	const full = total * ROW_HEIGHT;
	const height = Math.min(full, MAX_HEIGHT);
	const visible = Math.ceil(view.height / ROW_HEIGHT) + 1;
	const ratio = full > height ? (full - view.height) / Math.max(1, height - view.height) : 1;
	const first = Math.max(0, Math.min(total - 1, Math.floor((view.top * ratio) / ROW_HEIGHT)));
	const last = Math.min(total, first + visible);
	useLayoutEffect(() => {
		const observer = new ResizeObserver(() => setView((old) => ({ ...old, height: box.current.clientHeight - ROW_HEIGHT })));
		observer.observe(box.current);
		return () => observer.disconnect();
	}, []);
	useEffect(() => need(first, last), [first, last, total]);
	useEffect(() => {
		// A wheel step moves rows, not a share of a scaled list.
		const wheel = (event) => {
			if (ratio === 1) return;
			event.preventDefault();
			box.current.scrollTop += event.deltaY / ratio;
		};
		box.current.addEventListener("wheel", wheel, { passive: false });
		return () => box.current?.removeEventListener("wheel", wheel);
	}, [ratio]);
	const show = (n) => {
		const next = Math.max(0, Math.min(total - 1, n));
		select(next);
		if (next < first + 1 || next > last - 3) box.current.scrollTop = ((next - (next < first + 1 ? 1 : visible - 4)) * ROW_HEIGHT) / ratio;
	};
	const key = (event) => {
		const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: visible - 2, PageUp: 2 - visible, End: total, Home: -total }[event.key];
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		if (step) {
			event.preventDefault();
			event.stopPropagation();
			show(selected + step);
		} else if (event.key === "Enter") {
			const row = rowAt(selected);
			if (row) open(row);
		}
	};
	const rows = [];
	for (let n = first; n < last; n += 1) {
		const row = rowAt(n);
		const top = `${ratio === 1 ? n * ROW_HEIGHT : view.top + (n - first) * ROW_HEIGHT}px`;
		rows.push(h("div", { key: n, id: `row-${n}`, role: "row", "aria-rowindex": n + 2, "aria-selected": n === selected,
			class: `row${n === selected ? " selected" : ""}${row ? "" : " loading"}`, style: { top },
			onClick: () => { select(n); if (row) open(row); } },
			row ? RowCells({ row }) : html`<span role="gridcell" class="quiet">…</span>`));
	}
	return html`<div class="vlist" role="grid" tabindex="0" ref=${box} aria-label=${label} aria-rowcount=${total + 1}
		aria-activedescendant=${total && selected >= first && selected < last ? `row-${selected}` : undefined}
		onKeyDown=${key} onScroll=${() => setView((old) => ({ ...old, top: box.current.scrollTop }))}>
		<div class="row head" role="row" aria-rowindex="1">${HEAD.map((name) => html`<span role="columnheader" class=${`c-${name.toLowerCase()}${name === "Took" ? " num" : ""}`}>${name}</span>`)}</div>
		<div class="space" role="presentation" style=${{ height: `${height}px` }}>${rows}</div></div>`;
}

/** A short list of rows with a link each. */
export function RowList({ rows, caption }) {
	return html`<${Table} caption=${caption} numbers=${[4]} head=${["Time", "Outcome", "Tool", "Target", "Took"]}
		rows=${rows.map((row) => [row.call_id ? html`<a href=${href(`call/${row.call_id}`)}>${time(row.time_ms)}</a>` : time(row.time_ms),
			html`<${Outcome} row=${row} />`, row.tool, html`<span class="clip">${row.target}</span>`, duration(row.latency_us)])} />`;
}

export const openRow = (row) => go(row.call_id ? `call/${row.call_id}` : `record/${row.seq}`);
