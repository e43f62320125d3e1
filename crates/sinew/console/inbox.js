// Inbox: the requests that wait, and the whole of one request before a yes is possible.

import { api, go, href, html, notify, plural, span, time, useData, useEffect, useLayoutEffect, useRef, useState, useStore } from "./base.js";
import { Confirm, Diff, Empty, Failure, Loaded, Mode, RowList, ScreenTitle } from "./parts.js";

/** A request must be on the screen for this long before it can be approved. */
const READ_MS = 1000;

export function Inbox({ place }) {
	const now = useStore();
	const from = useData("inbox", {}, { every: 2000, key: String(now.header?.pending) });
	const items = from.data?.items ?? [];
	const id = place.rest[0] ?? "";
	const list = useRef(null);
	useLayoutEffect(() => {
		const move = (event) => {
			if (event.detail.screen !== "inbox" || !items.length) return;
			const at = items.findIndex((it) => it.id === id);
			const next = items[Math.max(0, Math.min(items.length - 1, at + event.detail.step))];
			if (next) go(`inbox/${next.id}`);
		};
		addEventListener("sinew:move", move);
		return () => removeEventListener("sinew:move", move);
	}, [items, id]);
	return html`<${ScreenTitle} title="Inbox">${items.length > 0 && html`<span class="quiet">${plural(items.length, "request")}, the next deadline first</span>`}<//>
		<div class=${`inbox${id ? " open" : ""}`}>
			<nav aria-label="Requests" ref=${list}><${Loaded} from=${from}>${() => items.length ? html`<ul class="requests">${items.map((it) => html`
				<li key=${it.id}><a href=${href(`inbox/${it.id}`)} aria-current=${it.id === id ? "true" : undefined}>
					<span class="line"><b>${it.tool}</b><${Left} seconds=${it.seconds_left} /></span>
					<span class="summary">${it.summary}</span>
					<span class="quiet">${it.caller}${it.session && ` · ${it.session}`} · risk ${it.risk}${it.identical.length > 0 ? ` · ${it.identical.length} more like it` : ""}</span></a></li>`)}</ul>`
				: html`<${Empty}>Nothing waits for you. A call that needs approval appears here by itself.<//>`}<//>
				${(from.data?.grants ?? []).length > 0 && html`<p class="quiet">${plural(from.data.grants.length, "grant")} in effect. <a href="#/sessions">Show and revoke</a></p>`}</nav>
			${id && html`<${Request} key=${id} id=${id} items=${items} listed=${from.data !== null} reload=${from.reload} />`}
		</div>`;
}

function Left({ seconds }) {
	return html`<span class=${`left${seconds < 60 ? " soon" : ""}`}>${span(seconds)} left</span>`;
}

function Request({ id, items, listed, reload }) {
	const from = useData("request", { id });
	const item = items.find((it) => it.id === id);
	return html`<${Loaded} from=${from}>${(request) => html`<${RequestSheet} request=${request} gone=${listed && !item} left=${item?.seconds_left ?? request.seconds_left} reload=${reload} />`}<//>`;
}

/** True once the end of the request was on the screen, and the request for a second. */
function useRead(box, id) {
	const [state, set] = useState({ end: false, share: 0, rested: false });
	useLayoutEffect(() => {
		const element = box.current;
		const look = () => {
			const { scrollTop, clientHeight, scrollHeight } = element;
			const share = scrollHeight <= clientHeight + 2 ? 1 : (scrollTop + clientHeight) / scrollHeight;
			set((old) => ({ ...old, share: Math.max(old.share, share), end: old.end || (share >= 0.995 && clientHeight > 0) }));
		};
		look();
		element.addEventListener("scroll", look, { passive: true });
		const observer = new ResizeObserver(look);
		observer.observe(element);
		const timer = setTimeout(() => set((old) => ({ ...old, rested: true })), READ_MS);
		return () => {
			element.removeEventListener("scroll", look);
			observer.disconnect();
			clearTimeout(timer);
		};
	}, [id]);
	return { read: state.end && state.rested, share: state.share };
}

function RequestSheet({ request, gone, left, reload }) {
	const box = useRef(null);
	const { read, share } = useRead(box, request.id);
	const [dialog, open] = useState("");
	const robot = navigator.webdriver === true;
	const why = robot ? "this browser is controlled by a program: approve in a terminal" : gone ? "it was decided or has expired" : request.no_approval_because;
	const canApprove = request.can_approve && !gone && !robot;
	// Before the next paint: a key that follows what is on the screen must find the state that is on the screen.
	useLayoutEffect(() => {
		const keys = (event) => {
			if (gone) return;
			const { key } = event.detail;
			if (key === "A" && canApprove && read) open("approve");
			else if (key === "A") notify(canApprove ? "Read the request to its end first" : `It cannot be approved here: ${why}`, true);
			if (key === "d") open("deny");
			if (key === "e" && request.editable) open("edit");
		};
		addEventListener("sinew:key", keys);
		return () => removeEventListener("sinew:key", keys);
	}, [read, gone, canApprove, why]);
	const settled = (text) => { open(""); notify(text); reload(); };
	return html`<article class="sheet" aria-label=${`Request: ${request.summary}`}>
		<header><p class="who"><b>${request.caller}</b>${request.session && ` in session ${request.session}`} asks for</p>
			<h2>${request.summary}</h2>
			<p class="facts"><span>risk <b>${request.risk}</b></span><span>mode <${Mode} mode=${request.mode} /></span><span>${request.waiting ? "the caller waits" : "the caller does not wait"}</span><${Left} seconds=${gone ? 0 : left} />
				${request.masked > 0 && html`<span>${plural(request.masked, "secret")} masked</span>`}${request.edited && html`<span>edited by you</span>`}</p></header>
		<div class="content" ref=${box} tabindex="0" role="region" aria-label="The whole request">
			<h3>What it would do</h3>
			<dl>${(request.effect ?? []).map((it) => html`<dt>${it.label}</dt><dd><code>${it.text}</code></dd>`)}</dl>
			${(request.changes ?? []).map((it) => html`<h3><code>${it.path}</code> <span class="quiet">${it.what}</span></h3><${Diff} lines=${it.lines ?? []} />`)}
			${(request.arguments ?? []).length > 0 && html`<h3>Arguments</h3><dl>${request.arguments.map((it) => html`<dt>${it.label}</dt><dd><code>${it.text}</code></dd>`)}</dl>`}
			<h3>Why you are asked</h3><ul class="plain">${request.asked_by.map((rule, n) => html`<li><code title=${request.rule_files[n]}>${rule}</code></li>`)}</ul>
			<h3>This caller before</h3>
			${request.history.length ? html`<${RowList} caption="Earlier calls of this caller" rows=${request.history} />` : html`<${Empty}>No earlier call of this caller is known.<//>`}
			<p class="quiet">Requested ${time(Date.parse(request.requested_at))}; denied by itself at ${time(Date.parse(request.expires_at))}. Silence never approves.</p>
			<p class="end" aria-hidden="true">End of the request</p>
		</div>
		<footer class="answers">
			<p role="status">${why ? `Cannot be approved here: ${why}.` : read ? "Read to the end." : share >= 0.995 ? "…" : `${Math.round(share * 100)} % read: scroll to the end to approve.`}</p>
			<div><button onClick=${() => open("deny")} disabled=${gone}>Deny…</button>
			${request.editable && html`<button onClick=${() => open("edit")} disabled=${gone || robot}>Edit…</button>`}</div>
			<button class="primary" onClick=${() => open("approve")} disabled=${!canApprove || !read}>Approve…</button>
		</footer>
		${dialog === "deny" && html`<${Deny} request=${request} close=${() => open("")} done=${settled} />`}
		${dialog === "approve" && html`<${Approve} request=${request} close=${() => open("")} done=${settled} />`}
		${dialog === "edit" && html`<${Edit} request=${request} close=${() => open("")} done=${settled} />`}
	</article>`;
}

function Identical({ request, chosen, choose }) {
	const same = request.identical;
	if (!same.length) return null;
	return html`<label class="check"><input type="checkbox" checked=${chosen} onChange=${(event) => choose(event.target.checked)} /> Settle ${plural(same.length, "other request")} with the same tool, summary and caller as well</label>`;
}

function Deny({ request, close, done }) {
	const [all, setAll] = useState(false);
	const text = useRef(null);
	const act = async () => {
		for (const id of [request.id, ...(all ? request.identical : [])]) await api("deny", { id, message: text.current.value });
		done(all ? `${1 + request.identical.length} requests were denied` : "The request was denied");
	};
	return html`<${Confirm} title="Deny" verb="Deny" danger act=${act} close=${close}>
		<p><b>${request.summary}</b></p>
		<label>Message for the model <span class="quiet">optional</span><textarea ref=${text} rows="3" maxlength="900" placeholder="Say what to do instead"></textarea></label>
		<${Identical} request=${request} chosen=${all} choose=${setAll} /><//>`;
}

const SCOPES = [["once", "This call, once"], ["600", "And similar calls for 10 minutes"], ["3600", "And similar calls for an hour"], ["session", "And similar calls until the caller disconnects"]];

function Approve({ request, close, done }) {
	const now = useStore();
	const [scope, setScope] = useState("once");
	const [rule, setRule] = useState(null);
	const [all, setAll] = useState(false);
	const pattern = useRef(null);
	const reset = () => setRule(null);
	const act = async ({ pin }) => {
		const patterns = (pattern.current?.value ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
		const terms = scope === "once" ? {} : { ...(scope === "session" ? { for_session: true } : { for_seconds: Number(scope) }), patterns };
		try {
			await api("approve", { id: request.id, pin, ...terms, ...(rule && scope !== "once" ? { rule } : {}) });
		} catch (failure) {
			if (failure.code !== "rule_not_displayed") throw failure;
			// The daemon creates a grant only with the lines that were displayed here.
			return setRule(failure.data.rule);
		}
		if (all && scope === "once") for (const id of request.identical) await api("approve", { id, pin });
		done("Approved: the call runs through every check again");
	};
	return html`<${Confirm} title="Approve" verb=${scope === "once" ? "Approve once" : rule ? "Approve and create this rule" : "Show the rule"} pin pinIsSet=${now.header?.pin} act=${act} close=${close}>
		<p><b>${request.summary}</b><br /><span class="quiet">asked by ${request.caller}</span></p>
		<fieldset><legend>Permit</legend>${SCOPES.map(([value, name]) => html`<label class="check"><input type="radio" name="scope" value=${value} checked=${scope === value} onChange=${() => { setScope(value); reset(); }} /> ${name}</label>`)}</fieldset>
		${scope !== "once" && html`<label>Widen by pattern <span class="quiet">optional, one per line: <code>path=/home/me/project/**</code></span><textarea ref=${pattern} rows="2" onInput=${reset}></textarea></label>`}
		${rule && html`<div class="rule" role="group" aria-label="The rule, word for word"><p class="quiet">The rule, word for word:</p><pre tabindex="0">${rule.join("\n")}</pre></div>`}
		${scope === "once" && html`<${Identical} request=${request} chosen=${all} choose=${setAll} />`}<//>`;
}

function Edit({ request, close, done }) {
	const now = useStore();
	const [text, setText] = useState(request.editable);
	const [verdict, setVerdict] = useState(null);
	const [error, setError] = useState(null);
	const check = async () => {
		setError(null);
		setVerdict(null);
		let parsed;
		try {
			parsed = JSON.parse(text);
		} catch (problem) {
			return setError({ message: `This is not JSON: ${problem.message}` });
		}
		try {
			setVerdict({ of: text, ...(await api("explain", { tool_name: request.tool, arguments: parsed })) });
		} catch (failure) {
			setError(failure);
		}
	};
	const checked = verdict?.of === text && verdict.verdict !== "deny";
	const act = async ({ pin }) => {
		if (!checked) return check();
		const result = await api("edit", { id: request.id, pin, arguments: text });
		done(result.new_request_id ? "The edited call is a new request" : "The edited call needs no approval and runs");
		if (result.new_request_id) go(`inbox/${result.new_request_id}`);
	};
	return html`<${Confirm} wide title="Edit the arguments" verb=${checked ? "Send the edited call" : "Judge the edited call"} pin pinIsSet=${now.header?.pin} act=${act} close=${close}>
		<p class="quiet">The edited call is judged again before it is sent, and asks you again if a rule requires that.</p>
		<label>Arguments<textarea class="code" rows="12" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
		<div class="line"><button type="button" onClick=${check}>Judge</button>${verdict && html`<span class=${`verdict v-${verdict.verdict}`} role="status">${verdict.verdict}${verdict.of !== text ? " (for the text before)" : ""}</span>`}</div>
		${verdict?.refusal && html`<p class="message">${verdict.refusal.reason}${verdict.refusal.rule && html`<br /><code>${verdict.refusal.rule.file}:${verdict.refusal.rule.line} ${verdict.refusal.rule.id}</code>`}</p>`}
		<${Failure} error=${error} /><//>`;
}
