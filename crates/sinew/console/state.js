// Tools, sessions, modes, health and the first steps.

import { api, count, href, html, notify, plural, span, time, useData, useState, useStore } from "./base.js";
import { ACTION, Confirm, Empty, Failure, Loaded, Mode, ScreenTitle, Section, Table, tighten } from "./parts.js";

export function Tools({ place }) {
	const from = useData("tools");
	const [text, setText] = useState(place.filter.q ?? "");
	const name = place.rest[0];
	return html`<${ScreenTitle} title="Tools"><label class="inline">Filter<input id="filter" value=${text} onInput=${(event) => setText(event.target.value)} /></label><//>
		<${Loaded} from=${from}>${({ tools, problems }) => {
			const shown = tools.filter((it) => `${it.name} ${it.category} ${it.description}`.toLowerCase().includes(text.toLowerCase()));
			const tool = tools.find((it) => it.name === name);
			return html`${(problems ?? []).length > 0 && html`<${Section} title="Not loaded, or changed"><ul class="plain">${problems.map((it) => html`<li class="failure"><code>${it.file}:${it.line ?? 0}</code> ${it.message} <code>${it.code}</code></li>`)}</ul>
					<p class="quiet">A changed tool of a manifest or an MCP server waits for <a href="#/policy/reload">your acceptance</a>.</p><//>`}
				<div class="columns reach-columns"><${Section} title=${plural(shown.length, "tool")}><${Table} caption="Tools" head=${["Tool", "Category", "Risk", "Approval", "Sandbox"]} rows=${shown.map((it) => [html`<a href=${href(`tools/${it.name}`)}><code>${it.name}</code></a>`, it.category, html`<span class=${`risk r-${it.risk_level}`}>${it.risk_level}</span>`, it.requires_approval ? "asks" : "", it.requires_sandbox ? "yes" : ""])} /><//>
				${tool && html`<${Section} title=${tool.name} note=${`version ${tool.version}`} actions=${html`<a class="button" href=${href("ledger", { tool: tool.name })}>Its calls</a>`}><p>${tool.description}</p>
					<p>${tool.allowed_modes.map((mode) => html`<${Mode} mode=${mode} /> `)}</p>
					<${Table} caption="Parameters" head=${["Parameter", "Type", "Meaning"]} rows=${tool.parameters.map((it) => [html`<code>${it.name}</code>${it.required ? html` <b>required</b>` : ""}`, it.type, it.description])} />
					<details class="record"><summary>Definition</summary><pre tabindex="0">${JSON.stringify(tool, null, 2)}</pre></details><//>`}</div>`;
		}}<//>`;
}

export function Sessions() {
	const now = useStore();
	const from = useData("sessions", {}, { every: 3000 });
	const [resume, ask] = useState(null);
	const after = async (text, name, params) => { await tighten(text, name, params); from.reload(); };
	return html`<${ScreenTitle} title="Sessions" /><${Loaded} from=${from}>${({ sessions, grants, suspended }) => html`
		<${Section} title="Worker sessions">${sessions.length ? html`<${Table} caption="Worker sessions" numbers=${[2, 3, 4]} head=${["Session", "May call", "Turns", "Calls left", "Cost", "Since", ACTION]} rows=${sessions.map((it) => [html`<b>${it.name}</b>`, it.allowlist.join(", "), count(it.turns), it.hops_left == null ? "–" : `${it.hops_left} of ${it.hops + it.hops_left}`, it.cost ? it.cost.toFixed(2) : "–", time(Date.parse(it.since)),
			html`<button onClick=${() => after(`Session ${it.name} was closed`, "close_session", { session_id: it.session_id })} aria-label=${`Close ${it.name}`}>Close</button>`])} />` : html`<${Empty}>No worker session is open.<//>`}<//>
		<${Section} title="Grants" note="calls that are permitted without asking">${grants.length ? html`<ul class="grants">${grants.map((it) => html`<li><pre tabindex="0">${it.lines.join("\n")}</pre><p><span class="left">${span(it.seconds_left)} left</span> <button onClick=${() => after("The grant was revoked", "revoke", { id: it.id })}>Revoke</button></p></li>`)}</ul>` : html`<${Empty}>No grant is in effect: every call that needs approval asks you.<//>`}<//>
		<${Section} title="Suspended callers">${suspended.length ? html`<${Table} caption="Suspended callers" head=${["Caller", "Reason", "Left", ACTION]} rows=${suspended.map((it) => [it.id, it.reason, span(it.seconds_left), html`<button onClick=${() => ask(it.id)}>Resume…</button>`])} />` : html`<${Empty}>No caller is suspended.<//>`}<//>
		<${Section} title="Connected clients">${(now.header?.clients ?? []).length ? html`<${Table} caption="Connected clients" head=${["Client", "Process", "Socket", "Since"]} rows=${now.header.clients.map((it) => [it.name ?? "unnamed", it.pid, it.socket, time(Date.parse(it.since))])} />` : html`<${Empty}>No client is connected. <a href="#/first">Connect an agent</a><//>`}<//>
		${resume && html`<${Confirm} title="Resume this caller" verb="Resume" pin pinIsSet=${now.header?.pin} close=${() => ask(null)} act=${async ({ pin }) => { await api("resume", { caller: resume, pin }); ask(null); from.reload(); }}><p><code>${resume}</code> may call again.</p><//>`}`}<//>`;
}

export function Modes() {
	const now = useStore();
	const from = useData("mode_history", {}, { key: String(now.header?.mode) });
	const [to, choose] = useState(null);
	const header = now.header;
	return html`<${ScreenTitle} title="Modes" />
		${header && html`<${Section} title="Now"><p class="now"><${Mode} mode=${header.mode} /> <span>${header.mode_reason || "the mode has never changed"}</span> <span class="quiet">${time(Date.parse(header.mode_since))}</span></p>
			${header.proposal?.to && html`<p class="message">A rule proposes <${Mode} mode=${header.proposal.to} />: ${header.proposal.reason}</p>`}
			<div class="line">${header.modes.map((it) => html`<button class=${it.effect === "loosens" ? "" : "danger"} onClick=${() => choose(it)}>${it.to}${it.effect === "loosens" ? " · PIN" : ""}</button>`)}</div><//>`}
		${to && html`<${ModeDialog} action=${to} close=${() => choose(null)} />`}
		<${Section} title="History"><${Loaded} from=${from}>${({ changes }) => changes.length ? html`<${Table} caption="Mode changes, newest first" head=${["Time", "From", "To", "Reason", "By"]} rows=${changes.map((it) => [time(it.time_ms), html`<${Mode} mode=${it.from} />`, html`<${Mode} mode=${it.to} />`, html`${it.reason}${it.sensors && html`<details><summary>sensors</summary><pre tabindex="0">${JSON.stringify(it.sensors, null, 1)}</pre></details>`}`, it.by])} />` : html`<${Empty}>The mode has never changed.<//>`}<//><//>`;
}

/** Changes the mode. LOCKDOWN and every other stricter mode needs no PIN. */
export function ModeDialog({ action, close }) {
	const now = useStore();
	const loosens = action.effect === "loosens";
	const act = async ({ pin, reason }) => {
		await api("mode", { mode: action.to, reason, ...(loosens ? { pin } : {}) });
		close();
		notify(`The mode is ${action.to}`);
	};
	return html`<${Confirm} title=${action.to === "LOCKDOWN" ? "Lock down" : `Change the mode to ${action.to}`} verb=${action.to === "LOCKDOWN" ? "Lock down now" : "Change"} danger=${!loosens}
		pin=${loosens} pinIsSet=${now.header?.pin} reason=${action.to === "LOCKDOWN" ? "locked down from the console" : ""} act=${act} close=${close}>
		<p>${action.to === "LOCKDOWN" ? "No tool can change the machine or use the network, and running calls that it forbids end. Leaving it needs your PIN." : loosens ? "More becomes possible." : "Less is possible; running calls are judged by the new mode."}</p><//>`;
}

/* ---- health ---- */

const GRADES = { good: ["●", "good"], note: ["◆", "note"], bad: ["■", "bad"] };

function Checks({ checks }) {
	const areas = [...new Set(checks.map((it) => it.area))];
	return areas.map((area) => {
		const list = checks.filter((it) => it.area === area);
		const bad = list.filter((it) => it.status !== "good");
		return html`<details class="record" open=${bad.some((it) => it.status === "bad")}><summary>${area} <span class="quiet">${bad.length ? plural(bad.length, "remark") : `${list.length} good`}</span></summary>
			<${Table} caption=${`Checks of ${area}`} head=${["Grade", "Check", "Found", "What to do"]} rows=${list.map((it) => [html`<span class=${`grade g-${it.status}`}><i aria-hidden="true">${(GRADES[it.status] ?? GRADES.note)[0]}</i> ${it.status}</span>`, it.check, it.found, it.remedy ?? ""])} /></details>`;
	});
}

export function Health() {
	const from = useData("health");
	return html`<${ScreenTitle} title="Health"><button onClick=${from.reload}>Check again</button><//>
		<${Loaded} from=${from}>${({ checks, status }) => html`
			<${Section} title="Checks" note="what \`sinew doctor\` reports"><${Checks} checks=${checks} /><//>
			<div class="columns"><${Section} title="Daemon"><dl><dt>version</dt><dd>${status.version}</dd><dt>process</dt><dd>${status.pid}</dd><dt>running for</dt><dd>${span(status.uptime_seconds)}</dd><dt>connections</dt><dd>${status.connections}</dd><dt>policy</dt><dd><code>${status.policy_hash.slice(0, 16)}</code></dd><dt>sockets</dt><dd>${status.sockets.map((it) => html`<code>${it}</code><br />`)}</dd></dl><//>
			<${Section} title="Ledger"><dl>${Object.entries(status.ledger).map(([key, value]) => html`<dt>${key.replaceAll("_", " ")}</dt><dd>${String(value)}</dd>`)}</dl><//></div>`}<//>`;
}

/* ---- first steps ---- */

export function First() {
	const now = useStore();
	const agents = useData("agents");
	const health = useData("health");
	const header = now.header;
	const called = now.rows.find((row) => ["call", "outcome"].includes(row.kind) && row.outcome === "done");
	const asked = now.rows.find((row) => row.kind === "approval");
	const bad = (health.data?.checks ?? []).filter((it) => it.status === "bad");
	const steps = [
		["Check the machine", health.data && !bad.length, html`<${Loaded} from=${health}>${({ checks }) => bad.length ? html`<p>${plural(bad.length, "problem")}; each says what to do.</p><${Checks} checks=${bad} />` : html`<p>${plural(checks.length, "check")}, no problem. <a href="#/health">All of them</a></p>`}<//>`],
		["Set an operator PIN", header?.pin, header?.pin ? html`<p>A PIN is set. Nothing is loosened without it.</p>` : html`<p>Agents can run as you; the PIN is what they do not have. In a terminal:</p><pre tabindex="0">sinew pin set</pre><p class="quiet">A console cannot choose the first PIN.</p>`],
		["Add a workspace", (header?.workspaces ?? []).length > 0, html`<p>${(header?.workspaces ?? []).length ? html`Tools may work in ${header.workspaces.map((it) => html`<code>${it}</code> `)}` : "Tools may work in no folder yet. In a terminal:"}</p><pre tabindex="0">sinew workspace add ~/project</pre><p class="quiet">The new folder waits for <a href="#/policy/reload">your acceptance</a>.</p>`],
		["Connect an agent", (header?.clients ?? []).some((it) => it.socket !== "control"), html`<${Loaded} from=${agents}>${(it) => html`<p>For Claude Code:</p><pre tabindex="0">sinew hook install claude-code</pre><p>For any client of MCP:</p><pre tabindex="0">${JSON.stringify(it.mcp, null, 2)}</pre>`}<//>`],
		["See a harmless call", Boolean(called), html`<p>Ask the agent to read a file in the workspace, or in a terminal there:</p><pre tabindex="0">sinew call list_directory path=.</pre>${called && html`<p>Seen: <a href=${href(`call/${called.call_id}`)}>${called.tool} ${called.target}</a></p>`}`],
		["Decide a call that asks", Boolean(asked), html`<p>Deleting a file asks you:</p><pre tabindex="0">sinew call delete_file path=note.txt</pre><p>It appears in the <a href="#/inbox">inbox</a>${header?.pending ? html`: <b>${plural(header.pending, "request")} now</b>` : ""}.</p>`],
	];
	const next = steps.findIndex(([, done]) => !done);
	return html`<${ScreenTitle} title="First steps"><span class="quiet">${steps.filter(([, done]) => done).length} of ${steps.length} done</span><//>
		<ol class="steps">${steps.map(([title, done, body], n) => html`<li class=${done ? "done" : n === next ? "next" : ""}><details open=${n === next}><summary><i aria-hidden="true">${done ? "✓" : n + 1}</i>${title}${done ? html`<span class="sr"> (done)</span>` : ""}</summary><div>${body}</div></details></li>`)}</ol>`;
}
