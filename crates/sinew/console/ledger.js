// Ledger: every record, filtered by the fragment of the address.

import { api, go, href, html, notify, plural, useEffect, useRef, useState, useStore } from "./base.js";
import { Empty, Failure, ScreenTitle, VirtualList, openRow } from "./parts.js";

const PAGE = 200;
const KINDS = ["", "decision", "outcome", "call", "refusal", "approval", "mode", "reload", "session", "undo", "note", "start", "stop"];
const OUTCOMES = ["", "done", "failed", "refused", "unknown"];
const MODES = ["", "NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"];
const TEXTS = [["tool", "Tool"], ["caller", "Caller"], ["session", "Session"], ["trace", "Trace"], ["since", "Since"], ["until", "Until"]];
const FIELDS = ["kind", "outcome", "mode", ...TEXTS.map(([key]) => key)];

export function Ledger({ place }) {
	const now = useStore();
	const filter = Object.fromEntries(FIELDS.filter((key) => place.filter[key]).map((key) => [key, place.filter[key]]));
	const isFiltered = Object.keys(filter).length > 0;
	const change = (key, value) => go("ledger", { ...filter, [key]: value });
	const [report, setReport] = useState(null);
	const verify = async () => {
		setReport({ busy: true });
		try {
			setReport(await api("verify"));
		} catch (error) {
			setReport(null);
			notify(error.message, true);
		}
	};
	return html`<${ScreenTitle} title="Ledger"><span class="quiet">${plural(now.header?.records ?? 0, "record")}</span>
			<button onClick=${verify} disabled=${report?.busy}>${report?.busy ? "Verifying…" : "Verify"}</button><//>
		${report && !report.busy && html`<p class=${report.intact ? "good" : "failure"} role="status">${report.intact ? `Intact: ${plural(report.records, "record")}, none changed or missing.` : `${plural(report.problems.length, "flaw")} found: ${report.problems.map((it) => `${it.what} (record ${it.seq ?? "?"})`).join("; ")}`}</p>`}
		<form class="filters" role="search" aria-label="Filter" onSubmit=${(event) => event.preventDefault()}>
			${[["kind", KINDS], ["outcome", OUTCOMES], ["mode", MODES]].map(([key, values]) => html`<label>${key}<select value=${filter[key] ?? ""} onChange=${(event) => change(key, event.target.value)}>${values.map((value) => html`<option value=${value}>${value || "any"}</option>`)}</select></label>`)}
			${TEXTS.map(([key, name]) => html`<label>${name}<input id=${key === "tool" ? "filter" : undefined} value=${filter[key] ?? ""} onChange=${(event) => change(key, event.target.value.trim())} placeholder=${["since", "until"].includes(key) ? "2026-01-31T12:00:00Z" : ""} /></label>`)}
			${isFiltered && html`<a class="button" href="#/ledger">Clear</a>`}
		</form>
		<${Records} key=${JSON.stringify(filter)} filter=${filter} isFiltered=${isFiltered} head=${now.rows[0]?.seq} />`;
}

/**
 * Rows by their place. Without a filter the place of a row follows from its sequence number, so any place of the list
 * can be read at once; with one, the pages follow each other.
 */
function Records({ filter, isFiltered, head }) {
	const [state, set] = useState({ top: null, pages: new Map(), next: null, total: 0, error: null });
	const loading = useRef(new Set());
	const load = async (page, before) => {
		if (loading.current.has(page)) return;
		loading.current.add(page);
		try {
			const reply = await api("ledger", { filter, limit: PAGE, ...(before ? { before_seq: before } : {}) });
			set((old) => {
				const pages = new Map(old.pages).set(page, reply.rows);
				const top = old.top ?? reply.rows[0]?.seq ?? 0;
				const known = [...pages.values()].reduce((sum, rows) => sum + rows.length, 0);
				const total = isFiltered ? known + (reply.next_before_seq ? 1 : 0) : top;
				return { top, pages, next: reply.next_before_seq, total, error: null };
			});
		} catch (error) {
			set((old) => ({ ...old, error }));
			loading.current.delete(page);
		}
	};
	useEffect(() => void load(0), []);
	const need = (from, to) => {
		if (state.top === null) return;
		for (let page = Math.floor(from / PAGE); page <= Math.floor(Math.max(from, to - 1) / PAGE); page += 1) {
			if (state.pages.has(page)) continue;
			if (!isFiltered) load(page, state.top - page * PAGE + 1);
			else if (state.next && page === state.pages.size) load(page, state.next);
		}
	};
	const rowAt = (n) => state.pages.get(Math.floor(n / PAGE))?.[n % PAGE];
	const newer = !isFiltered && state.top !== null && head > state.top ? head - state.top : 0;
	if (state.error) return html`<${Failure} error=${state.error} retry=${() => load(0)} />`;
	if (state.top === null) return html`<p class="quiet" role="status">Loading…</p>`;
	if (!state.total) return html`<${Empty}>No record matches. <a href="#/ledger">Show all</a><//>`;
	return html`${newer > 0 && html`<button class="newer" onClick=${() => { loading.current.clear(); set({ top: null, pages: new Map(), next: null, total: 0, error: null }); load(0); }}>${plural(newer, "newer record")}: show</button>`}
		<${VirtualList} label="Records, newest first" total=${state.total} rowAt=${rowAt} need=${need} open=${openRow} />`;
}
