// Overview, live calls, and the page of one call.

import { api, count, duration, go, href, html, plural, span, store, time, useData, useState, useStore } from "./base.js";
import { Bars, Budget, CallChart, Waterfall } from "./charts.js";
import { ACTION, Confirm, Diff, Empty, Failure, Loaded, Outcome, RowCells, RowList, ScreenTitle, Section, Table, Mode, openRow, tighten, unifiedLines } from "./parts.js";

const AXES = [[60, "1 h"], [360, "6 h"], [1440, "24 h"], [10080, "7 d"]];

export function Overview({ place }) {
	const minutes = Number(place.filter.minutes) || 60;
	const from = useData("overview", { minutes }, { every: 5000, key: String(store.header?.mode) });
	return html`<${ScreenTitle} title="Overview"><div class="segments" role="group" aria-label="Time axis">${AXES.map(([value, name]) => html`
		<a href=${href("overview", { minutes: value })} aria-current=${value === minutes ? "true" : undefined}>${name}</a>`)}</div><//>
		<${Loaded} from=${from}>${({ charts, header, sessions }) => html`
			<div class="figures">
				<${Figure} name="Calls" value=${count(charts.total.done + charts.total.failed + charts.total.refused)} note=${`${count(charts.total.refused)} refused, ${count(charts.total.failed)} failed`} />
				<${Figure} name="Median" value=${charts.latency.calls ? duration(charts.latency.p50_us) : "–"} note="without the wait for you" />
				<${Figure} name="95 %" value=${charts.latency.calls ? duration(charts.latency.p95_us) : "–"} note=${charts.latency.calls ? `99 %: ${duration(charts.latency.p99_us)}` : "no calls yet"} />
				<${Figure} name="Waiting for you" value=${count(header.pending)} note=${header.pending ? html`<a href="#/inbox">Open the inbox</a>` : "nothing"} hot=${header.pending > 0} />
				<${Figure} name="Running" value=${count(header.running)} note=${html`<a href="#/live">Live calls</a>`} />
			</div>
			<${Section} title="Calls by outcome" note=${charts.covered_from_ms ? `counted since ${time(charts.covered_from_ms)}: older records are not in memory` : "the strip below shows the mode"}><${CallChart} charts=${charts} /><//>
			<div class="columns">
				<${Section} title="Rules that refused most">${charts.refusing.length
					? html`<${Bars} label="Refusals by rule" items=${charts.refusing.map((it) => ({ name: it.rule, value: it.calls, note: `last: ${it.tool}`, href: href("ledger", { kind: "refusal", tool: it.tool }) }))} />`
					: html`<${Empty}>No rule refused a call in this time.<//>`}<//>
				<${Section} title="What asking costs" note="per rule that asks">${charts.economics.length
					? html`<${Table} caption="Approvals by rule" numbers=${[1, 2, 3, 4]} head=${["Rule", "Asked", "Yes", "Median", "Under 2 s"]}
						rows=${charts.economics.map((it) => [it.rule, count(it.asked), it.asked ? `${Math.round((it.approved / it.asked) * 100)} %` : "–", span(it.median_ms / 1000), count(it.hasty)])} />
						<p class="quiet">A rule that is always approved in two seconds protects nothing. <a href="#/policy/suggest">See narrower rules</a>.</p>`
					: html`<${Empty}>No rule asked you in this time.<//>`}<//>
				<${Section} title="Budgets"><${Budgets} header=${header} sessions=${sessions} /><//>
			</div>`}<//>`;
}

function Figure({ name, value, note, hot }) {
	return html`<div class=${`figure${hot ? " hot" : ""}`}><span>${name}</span><strong>${value}</strong><small>${note}</small></div>`;
}

const LIMITS = { mode_per_minute: "Calls left this minute, in this mode", tool_per_hour: "Calls left this hour", outbound_per_hour: "Outbound requests left this hour" };

function Budgets({ header, sessions }) {
	const left = Object.entries(header.remaining ?? {}).filter(([, value]) => typeof value === "number");
	return html`${left.map(([name, value]) => html`<p class="pair"><span>${LIMITS[name] ?? name.replaceAll("_", " ")}</span><b class="num">${count(value)}</b></p>`)}
		${(sessions ?? []).map((it) => it.hops_left != null && html`<${Budget} name=${it.name || it.session_id.slice(0, 8)} used=${it.hops} of=${it.hops + it.hops_left} />`)}
		${!left.length && !(sessions ?? []).length && html`<${Empty}>No limits apply now.<//>`}`;
}

/* ---- live ---- */

const STATES = { deciding: "being decided", suspended: "waits for you", queued: "waits for a slot", running: "running" };

export function Live() {
	const now = useStore();
	const from = useData("live", {}, { every: 1000, key: String(now.header?.running) });
	const [paused, setPaused] = useState(null);
	const rows = (paused ?? now.rows).slice(0, 200);
	const behind = paused ? now.rows.findIndex((row) => row.seq === paused[0]?.seq) : 0;
	return html`<${ScreenTitle} title="Live" />
		<${Section} title="Calls that have not ended"><${Loaded} from=${from}>${({ calls }) => calls.length
			? html`<${Table} caption="Calls that have not ended" numbers=${[3]} head=${["Tool", "State", "Caller", "Age", ACTION]} rows=${calls.map((it) => [it.tool,
					it.approval_id ? html`<a href=${href(`inbox/${it.approval_id}`)}>${STATES[it.state] ?? it.state}</a>` : STATES[it.state] ?? it.state,
					it.caller.client ?? `uid ${it.caller.uid}`, span(it.age_ms / 1000),
					html`<button disabled=${it.cancelled} onClick=${async () => { await tighten(`${it.tool} was cancelled`, "cancel", { call_id: it.call_id }); from.reload(); }}
						aria-label=${`Cancel ${it.tool}`}>${it.cancelled ? "ending…" : "Cancel"}</button>`])} />`
			: html`<${Empty}>No call runs or waits.<//>`}<//><//>
		<${Section} title="Events" note=${paused ? plural(Math.max(0, behind), "newer event") : "as they are recorded"}
			actions=${html`<button aria-pressed=${paused !== null} onClick=${() => setPaused(paused ? null : now.rows)}>${paused ? "Continue" : "Pause"}</button>`}>
			${rows.length ? html`<div class="feed" role="grid" aria-label="Newest records" tabindex="0" aria-rowcount=${rows.length}>${rows.map((row) => html`<div class="row" role="row" key=${row.seq} onClick=${() => openRow(row)}>${RowCells({ row })}</div>`)}</div>`
				: html`<${Empty}>Nothing was recorded since this page was opened. <a href="#/ledger">Earlier records</a> are in the ledger.<//>`}<//>`;
}

/* ---- one call ---- */

export function CallPage({ place }) {
	const from = useData("call", { call_id: place.rest[0] ?? "" }, { key: String(useStore().rows[0]?.call_id === place.rest[0] && store.rows[0]?.seq) });
	return html`<${ScreenTitle} title="Call" />
		<${Loaded} from=${from}>${(page) => html`
			<div class="call-head"><h2><code>${page.tool}</code> ${page.target && html`<span class="target">${page.target}</span>`}</h2>
				<p><${Outcome} row=${page} /> <span class="quiet">${time(page.time_ms)} · ${page.caller} · </span><${Mode} mode=${page.mode} />
				${page.latency_us != null && html`<span class="quiet"> · ${duration(page.latency_us)}</span>`}</p>
				${page.message && html`<p class="message">${page.message}</p>`}</div>
			<div class="columns">
				<${Section} title="Rules">${page.rules.length ? html`<ul class="plain">${page.rules.map((rule) => html`<li><code>${rule}</code></li>`)}</ul>` : html`<${Empty}>No rule was evaluated.<//>`}
					<p class="links"><a href=${href("policy/playground", { tool: page.tool, path: page.target.startsWith("/") ? page.target : "" })}>Explain it now</a>
					<a href=${href("ledger", { trace: page.trace_id })}>Records of its trace</a></p><//>
				<${Section} title="Timeline">${page.stages.length ? html`<${Waterfall} page=${page} />` : html`<${Empty}>No stage was recorded.<//>`}<//>
			</div>
			${(page.files ?? []).length > 0 && html`<${Section} title="Changed files"><ul class="plain">${page.files.map((file) => html`<li><code>${file}</code></li>`)}</ul>
				${page.undoable && html`<${Undo} id=${page.call_id} />`}<//>`}
			<${Section} title="Records" note=${plural(page.records.length, "record")}>${page.records.map((record) => html`<details class="record"><summary>${record.kind} <span class="quiet">${record.seq} · ${record.time}</span></summary><pre tabindex="0">${JSON.stringify(record, null, 2)}</pre></details>`)}<//>`}<//>`;
}

function Undo({ id }) {
	const now = useStore();
	const [plan, setPlan] = useState(null);
	const [error, setError] = useState(null);
	const [asking, ask] = useState(false);
	const preview = () => api("undo_preview", { call_id: id }).then((it) => { setPlan(it); setError(null); }, setError);
	return html`<div class="undo">${!plan && html`<button onClick=${preview}>Preview undo</button>`}<${Failure} error=${error} />
		${plan && html`<h3>Undo would make these changes</h3>${plan.changes.map((it) => html`<p><code>${it.path}</code> <span class="quiet">${it.action.replace("_", " ")}</span></p>
			${it.diff && html`<${Diff} lines=${unifiedLines(it.diff)} />`}`)}<button onClick=${() => ask(true)}>Undo…</button>`}
		${asking && html`<${Confirm} title="Undo the changes of this call" verb="Undo" pin pinIsSet=${now.header?.pin} close=${() => ask(false)}
			act=${async ({ pin }) => { const done = await api("undo", { call_id: id, pin }); ask(false); setPlan(null); if (done.undo_id) go(`call/${done.undo_id}`); }}>
			<p>${plural(plan.changes.length, "file")} will change. The undo is recorded and can be undone itself.</p><//>`}</div>`;
}

export function RecordPage({ place }) {
	const seq = Number(place.rest[0]);
	const from = useData("ledger", { before_seq: seq + 1, limit: 1 });
	return html`<${ScreenTitle} title=${`Record ${seq}`} /><${Loaded} from=${from}>${({ rows }) => html`<${RowList} caption="Record" rows=${rows} />`}<//>`;
}
