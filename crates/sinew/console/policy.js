// Policy: what it permits, how a call would be decided, and what another policy would change.

import { api, count, href, html, notify, plural, time, useData, useEffect, useRef, useState, useStore } from "./base.js";
import { Confirm, Empty, Failure, Loaded, Mode, ScreenTitle, Section, Table } from "./parts.js";

const TABS = [["reach", "Reach"], ["playground", "Playground"], ["candidate", "Candidate"], ["suggest", "Suggestions"], ["reload", "Reload"]];
const MODES = ["NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"];

export function Policy({ place }) {
	const tab = place.rest[0] ?? "reach";
	const Tab = { reach: Reach, playground: Playground, candidate: Candidate, suggest: Suggest, reload: Reload }[tab] ?? Reach;
	return html`<${ScreenTitle} title="Policy"><nav class="segments" aria-label="Parts of the policy">${TABS.map(([key, name]) => html`<a href=${href(`policy/${key}`)} aria-current=${key === tab ? "page" : undefined}>${name}</a>`)}</nav><//><${Tab} place=${place} />`;
}

function Reach() {
	const from = useData("reach");
	const [chosen, choose] = useState(null);
	return html`<${Loaded} from=${from}>${({ reach, workspaces }) => {
		const tools = [...new Set(reach.map((it) => it.tool))];
		const at = (tool, mode) => reach.find((it) => it.tool === tool && it.mode === mode);
		const cell = (tool, mode) => {
			const it = at(tool, mode);
			if (!it) return html`<span class="none" aria-label="not permitted">·</span>`;
			const asks = it.approval || it.asks || it.requires_approval;
			return html`<button class=${`reach ${it.writes ? "writes" : "reads"}`} aria-pressed=${chosen === it} onClick=${() => choose(it)}><span class="sr">${tool} in ${mode}: </span>${it.writes ? "write" : "read"}${asks ? " ?" : ""}</button>`;
		};
		return html`<div class="columns reach-columns"><${Section} title="What each tool can do" note=${workspaces.length ? `workspaces: ${workspaces.join(", ")}` : "no workspace: file tools reach nothing"}>
			<${Table} caption="Tools by mode" head=${["Tool", ...MODES.map((mode) => html`<${Mode} mode=${mode} />`)]} rows=${tools.map((tool) => [html`<code>${tool}</code>`, ...MODES.map((mode) => cell(tool, mode))])} /><//>
			${chosen && html`<${Section} title=${`${chosen.tool} in ${chosen.mode}`} actions=${html`<button class="plain" aria-label="Close" onClick=${() => choose(null)}>✕</button>`}>
				<dl>${Object.entries(chosen).filter(([key, value]) => !["tool", "mode", "rules"].includes(key) && value != null && value !== false && (!Array.isArray(value) || value.length)).map(([key, value]) => html`<dt>${key.replaceAll("_", " ")}</dt><dd>${Array.isArray(value) ? html`<ul class="plain">${value.map((it) => html`<li><code>${typeof it === "string" ? it : JSON.stringify(it)}</code></li>`)}</ul>` : String(value)}</dd>`)}</dl>
				<h3>Rules</h3><ul class="plain">${(chosen.rules ?? []).map((rule) => html`<li><code>${rule.file.split("/").pop()}:${rule.line} ${rule.id}</code></li>`)}</ul><//>`}</div>`;
	}}<//>`;
}

/* ---- playground ---- */

function Playground({ place }) {
	const tools = useData("tools");
	const [tool, setTool] = useState(place.filter.tool ?? "read_file");
	const [mode, setMode] = useState("");
	const [text, setText] = useState(JSON.stringify(place.filter.path ? { path: place.filter.path } : { path: "/etc/shadow" }, null, 2));
	const [result, setResult] = useState(null);
	const [error, setError] = useState(null);
	useEffect(() => {
		const timer = setTimeout(async () => {
			let parsed;
			try {
				parsed = JSON.parse(text || "{}");
			} catch (problem) {
				return setError({ message: `The arguments are not JSON: ${problem.message}` });
			}
			try {
				setResult(await api("explain", { tool_name: tool, arguments: parsed, mode }));
				setError(null);
			} catch (failure) {
				setError(failure);
			}
		}, 250);
		return () => clearTimeout(timer);
	}, [tool, mode, text]);
	const known = tools.data?.tools ?? [];
	const about = known.find((it) => it.name === tool);
	return html`<div class="columns"><${Section} title="A call" note="Nothing runs, and nothing is recorded.">
			<form onSubmit=${(event) => event.preventDefault()}>
			<label>Tool<input list="tools" value=${tool} onInput=${(event) => setTool(event.target.value)} /><datalist id="tools">${known.map((it) => html`<option value=${it.name} />`)}</datalist></label>
			<label>Mode<select value=${mode} onChange=${(event) => setMode(event.target.value)}><option value="">the current one</option>${MODES.map((it) => html`<option>${it}</option>`)}</select></label>
			<label>Arguments<textarea class="code" rows="8" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label></form>
			${about && html`<p class="quiet">${about.description} Arguments: ${about.parameters.map((it) => it.name + (it.required ? "" : "?")).join(", ")}</p>`}<//>
		<${Section} title="The verdict"><div aria-live="polite"><${Failure} error=${error} />${result && html`
			<p class=${`verdict big v-${result.verdict}`}>${{ permit: "Permitted", ask: "Asks you", deny: "Refused" }[result.verdict] ?? result.verdict} <span class="quiet">in ${result.mode}</span></p>
			${result.refusal && html`<p class="message">${result.refusal.reason}</p>${result.refusal.hint && html`<p class="quiet">${result.refusal.hint}</p>`}`}
			<h3>Rules, in the order of their evaluation</h3><ol class="rules">${[...(result.rules ?? []), ...(result.asked_by ?? []), ...(result.refusal?.rule ? [result.refusal.rule] : [])].map((rule) => html`<li><code>${rule.file.split("/").pop()}:${rule.line} ${rule.id}</code></li>`)}</ol>
			${(result.notes ?? []).map((note) => html`<p class="quiet">${note}</p>`)}`}</div><//></div>`;
}

/* ---- candidate ---- */

function Candidate() {
	const files = useData("policy_files");
	const [name, setName] = useState("tools.yaml");
	const [texts, setTexts] = useState({});
	const [result, setResult] = useState({ busy: true });
	const original = files.data?.files.find((it) => it.name === name)?.text;
	const text = texts[name] ?? original ?? "";
	const turn = useRef(0);
	useEffect(() => {
		if (original === undefined) return;
		const mine = ++turn.current;
		const timer = setTimeout(async () => {
			setResult((old) => ({ ...old, busy: true }));
			const found = await api("replay", { file: name, text, days: 7 }).then((replay) => ({ replay }), (error) => ({ error }));
			if (mine === turn.current) setResult({ busy: false, ...found });
		}, 500);
		return () => clearTimeout(timer);
	}, [text, name, original]);
	return html`<${Loaded} from=${files}>${({ folder }) => html`<div class="columns candidate">
		<${Section} title="The policy as it would be" note=${folder} actions=${html`<label class="inline">File<select value=${name} onChange=${(event) => setName(event.target.value)}>${files.data.files.map((it) => html`<option value=${it.name}>${it.name}${it.exists ? "" : " (built-in)"}</option>`)}</select></label>`}>
			<textarea class="code editor" aria-label=${`Text of ${name}`} spellcheck="false" value=${text} onInput=${(event) => setTexts({ ...texts, [name]: event.target.value })}></textarea>
			<p class="quiet">Nothing is written here. Copy the text into the file; what loosens then waits for <a href="#/policy/reload">your acceptance</a>.</p><//>
		<${Section} title="The last seven days, judged by it" note=${result.busy ? "judging…" : ""}><div aria-live="polite" aria-busy=${result.busy}>
			<${Failure} error=${result.error} />${result.replay && html`<${ReplayResult} replay=${result.replay} />`}</div><//></div>`}<//>`;
}

function ReplayResult({ replay }) {
	return html`<p><b>${plural(replay.same, "call")}</b> decided as before${replay.not_judged ? `, ${count(replay.not_judged)} not judged` : ""}.</p>
		${!replay.groups.length && html`<${Empty}>No recorded call would be decided differently.<//>`}
		${replay.groups.map((group) => html`<details class=${`group${group.loosens ? " loosens" : ""}`} open><summary><span class=${`verdict v-${group.was}`}>${group.was}</span> → <span class=${`verdict v-${group.becomes}`}>${group.becomes}</span> <b class="num">${count(group.calls)}</b>${group.loosens ? " becomes possible" : ""}</summary>
			${group.tools.map((it) => html`<h3><code>${it.tool}</code> ${plural(it.calls, "call")}</h3><ul class="plain">${it.samples.map((sample) => html`<li><a href=${href(`call/${sample.call_id}`)}>${time(Date.parse(sample.time))}</a> ${sample.found}</li>`)}</ul>`)}</details>`)}
		${(replay.differences ?? []).length > 0 && html`<h3>Rules that differ</h3><ul class="plain">${replay.differences.map((it) => html`<li><span class=${`effect e-${it.effect}`}>${it.effect}</span> ${it.description}</li>`)}</ul>`}`;
}

/* ---- suggestions and reload ---- */

function Suggest() {
	const from = useData("suggest");
	return html`<${Section} title="Changes that the record suggests" note="from the approvals and refusals of the last week, narrowest first"><${Loaded} from=${from}>${(found) => (found.suggestions ?? []).length
		? found.suggestions.map((it) => html`<details class="group" open><summary>${it.title ?? it.description ?? it.summary ?? "A narrower rule"}</summary><pre tabindex="0">${JSON.stringify(it, null, 2)}</pre></details>`)
		: html`<${Empty}>${plural(found.calls ?? 0, "recorded call")} and ${plural(found.questions ?? 0, "question")}: no change is worth proposing.<//>`}<//><//>`;
}

function Reload() {
	const now = useStore();
	const from = useData("reload");
	const [asking, ask] = useState(false);
	return html`<${Section} title="Configuration on disk" actions=${html`<button onClick=${from.reload}>Read again</button>`}><${Loaded} from=${from}>${(report) => html`
		<p><b>${{ unchanged: "The files are what is in effect.", applied: "The changed files are in effect now.", waiting: "A change loosens the policy and waits for you.", rejected: "The files cannot be loaded; the last good configuration stays in effect." }[report.result] ?? report.result}</b></p>
		${report.error && html`<p class="failure">${report.error}</p>`}
		${(report.changes ?? []).length > 0 && html`<ul class="plain">${report.changes.map((it) => html`<li><span class=${`effect e-${it.effect}`}>${it.effect}</span> ${it.description}${it.waits ? html` <b>waits</b>` : ""}</li>`)}</ul>`}
		${report.candidate && html`<button class="primary" onClick=${() => ask(true)}>Accept…</button>`}
		${asking && html`<${Confirm} title="Accept the looser configuration" verb="Accept" pin pinIsSet=${now.header?.pin} close=${() => ask(false)}
			act=${async ({ pin }) => { const done = await api("accept_reload", { candidate: report.candidate, pin }); ask(false); notify(done.result === "applied" ? "The configuration is in effect" : `Result: ${done.result}`, done.result !== "applied"); from.reload(); }}>
			<p>Exactly these changes take effect; a later change of the files is not accepted with them.</p><ul class="plain">${(report.changes ?? []).filter((it) => it.waits).map((it) => html`<li>${it.description}</li>`)}</ul><//>`}`}<//><//>`;
}


