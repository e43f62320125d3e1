// The frame of every screen: header, navigation, keys, and the session of this tab.

import { followStream, go, hasToken, href, html, isStalled, notify, openSession, place, plural, render, span, store, update, useEffect, usePlace, useRef, useState, useStore } from "./base.js";
import { Dialog, Failure, Mode } from "./parts.js";
import { CallPage, Live, Overview, RecordPage } from "./overview.js";
import { Inbox } from "./inbox.js";
import { Ledger } from "./ledger.js";
import { Policy } from "./policy.js";
import { First, Health, ModeDialog, Modes, Sessions, Tools } from "./state.js";

const SCREENS = [["overview", "Overview", Overview, "o"], ["inbox", "Inbox", Inbox, "i"], ["live", "Live", Live, "v"], ["ledger", "Ledger", Ledger, "l"],
	["policy", "Policy", Policy, "p"], ["tools", "Tools", Tools, "t"], ["sessions", "Sessions", Sessions, "s"], ["modes", "Modes", Modes, "m"],
	["health", "Health", Health, "h"], ["first", "First steps", First, "f"]];
const PAGES = { call: CallPage, record: RecordPage };
const KEYS = [["g then o, i, v, l, p, t, s, m, h, f", "go to a screen"], ["j and k", "next and previous request or row"], ["/", "filter"], ["Enter", "open"],
	["Shift+A", "approve the open request, once it is read"], ["d", "deny the open request"], ["e", "edit the open request"], ["Ctrl+K", "go to anything"], ["?", "this list"]];
const SHORTCUTS = "sinew.shortcuts";

function Header({ lock }) {
	const { header, connected, session } = useStore();
	const stalled = isStalled();
	const silent = Math.round((Date.now() - store.heardAt) / 1000);
	const link = session !== "open" ? "no session" : stalled ? `no news for ${span(silent)}` : connected ? "live" : "daemon not reachable";
	return html`<header class=${`top m-${header?.mode}`}><a class="brand" href="#/overview">Sinew</a>
		${header && html`<a class="item" href="#/modes" title=${header.mode_reason}><${Mode} mode=${header.mode} /></a>
			<a class=${`item${header.pending ? " hot" : ""}`} href="#/inbox"><b>${header.pending}</b> waiting</a>
			<a class=${`item${header.ledger_ok ? "" : " bad"}`} href="#/ledger">ledger ${header.ledger}</a>
			<a class=${`item${header.pin ? "" : " bad"}`} href="#/first">${header.pin ? "PIN set" : "no PIN"}</a>
			${header.reload && html`<a class="item hot" href="#/policy/reload">reload ${header.reload.result}</a>`}`}
		<span class=${`item link${link === "live" ? "" : " bad"}`} role="status"><i aria-hidden="true">${link === "live" ? "●" : "▲"}</i> ${link}</span>
		<button class="lockdown" disabled=${!header || header.mode === "LOCKDOWN"} onClick=${lock}>LOCKDOWN</button></header>`;
}

function Navigation({ screen }) {
	const { header } = useStore();
	return html`<nav class="side" aria-label="Screens">${SCREENS.map(([id, name]) => html`<a href=${href(id)} aria-current=${id === screen ? "page" : undefined}>${name}${id === "inbox" && header?.pending ? html` <b aria-label=${plural(header.pending, "request")}>${header.pending}</b>` : ""}</a>`)}
		<button class="plain" onClick=${() => dispatchEvent(new CustomEvent("sinew:help"))}>Keys <kbd>?</kbd></button></nav>`;
}

/** Goes to a screen, a request or a record by a few letters. */
function Palette({ close }) {
	const [text, setText] = useState("");
	const options = [...SCREENS.map(([id, name]) => [name, id]), ["Policy: candidate and replay", "policy/candidate"], ["Policy: playground", "policy/playground"], ["Policy: reload", "policy/reload"],
		["Refusals", "ledger?kind=refusal"], ["Failures", "ledger?outcome=failed"], ...store.rows.slice(0, 100).filter((row) => row.call_id).map((row) => [`${row.tool} ${row.target} (${row.word})`, `call/${row.call_id}`])];
	const found = options.filter(([name]) => text.toLowerCase().split(" ").every((part) => name.toLowerCase().includes(part))).slice(0, 12);
	const open = (path) => { close(); location.hash = `#/${path}`; };
	return html`<${Dialog} title="Go to" close=${close}><form onSubmit=${(event) => { event.preventDefault(); if (found[0]) open(found[0][1]); }}>
		<label class="sr" for="palette">Screen, request or call</label><input id="palette" autofocus autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} />
		<ul class="palette">${found.map(([name, path]) => html`<li><a href=${`#/${path}`} onClick=${close}>${name}</a></li>`)}</ul></form><//>`;
}

function Help({ close }) {
	const [on, set] = useState(localStorage.getItem(SHORTCUTS) !== "off");
	return html`<${Dialog} title="Keys" close=${close}><dl class="keys">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
		<label class="check"><input type="checkbox" checked=${on} onChange=${(event) => { localStorage.setItem(SHORTCUTS, event.target.checked ? "on" : "off"); set(event.target.checked); }} /> Single-key shortcuts</label><//>`;
}

function useKeys(show) {
	// Not 0, or every key of the first moments of a page would be the second one.
	const prefix = useRef(-Infinity);
	useEffect(() => {
		const pressed = (event) => {
			if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
				event.preventDefault();
				return show("palette");
			}
			const target = event.target;
			const typing = target.closest?.("input, textarea, select, dialog");
			if (typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat || localStorage.getItem(SHORTCUTS) === "off") return;
			if (performance.now() - prefix.current < 1200) {
				prefix.current = -Infinity;
				const screen = SCREENS.find(([, , , key]) => key === event.key);
				if (screen) go(screen[0]);
				return;
			}
			const { screen } = place();
			const step = { j: 1, k: -1 }[event.key];
			if (event.key === "g") prefix.current = performance.now();
			else if (event.key === "?") show("help");
			else if (event.key === "/") {
				const field = document.getElementById("filter");
				if (field) event.preventDefault();
				field?.focus();
			} else if (step) dispatchEvent(new CustomEvent("sinew:move", { detail: { screen, step } }));
			else if (["A", "d", "e"].includes(event.key)) {
				event.preventDefault();
				dispatchEvent(new CustomEvent("sinew:key", { detail: { key: event.key } }));
			}
		};
		const help = () => show("help");
		addEventListener("keydown", pressed);
		addEventListener("sinew:help", help);
		return () => {
			removeEventListener("keydown", pressed);
			removeEventListener("sinew:help", help);
		};
	}, []);
}

function Ended() {
	const link = useRef(null);
	const [error, setError] = useState(null);
	const submit = (event) => {
		event.preventDefault();
		start(link.current.value.split("#").pop().trim()).catch(setError);
	};
	return html`<main class="ended"><h1>This tab has no session</h1><p>A link works once, within a minute, and a session lasts eight hours. Press Enter in the terminal of <code>sinew console</code>, and open the new link or paste it here.</p>
		<form onSubmit=${submit}><label>Link<input ref=${link} autocomplete="off" required /></label><button class="primary">Open</button></form><${Failure} error=${error} /></main>`;
}

function App() {
	const now = useStore();
	const at = usePlace();
	const [overlay, show] = useState("");
	useKeys(show);
	const [, name, Screen] = SCREENS.find(([id]) => id === at.screen) ?? [null, PAGES[at.screen] ? "Call" : "Overview", PAGES[at.screen] ?? Overview];
	const first = useRef(true);
	useEffect(() => {
		document.title = `${now.header?.pending ? `(${now.header.pending}) ` : ""}${name} · Sinew`;
	});
	useEffect(() => {
		// After a change of the screen, a screen reader begins at its title.
		if (!first.current) document.getElementById("screen-title")?.focus({ preventScroll: true });
		first.current = false;
	}, [at.screen]);
	const close = () => show("");
	if (now.session === "ended") return html`<${Ended} />`;
	return html`<a class="skip" href="#screen" onClick=${(event) => { event.preventDefault(); document.getElementById("screen").focus(); }}>Skip to the content</a>
		<${Header} lock=${() => show("lockdown")} /><div class="frame"><${Navigation} screen=${at.screen} />
		<main id="screen" tabindex="-1">${now.session === "open" && html`<${Screen} place=${at} key=${at.screen === "call" ? at.rest[0] : at.screen} />`}</main></div>
		<div class="notice" role="status" aria-live="polite">${now.notice && html`<p class=${now.notice.bad ? "bad" : ""}>${now.notice.text} <button class="plain" aria-label="Close" onClick=${() => update({ notice: null })}>✕</button></p>`}</div>
		${overlay === "palette" && html`<${Palette} close=${close} />`}${overlay === "help" && html`<${Help} close=${close} />`}
		${overlay === "lockdown" && html`<${ModeDialog} action=${{ to: "LOCKDOWN", effect: "tightens" }} close=${close} />`}`;
}

/** Opens the session: with the code of the link, which leaves the address at once, or with the token of this tab. */
async function start(code) {
	if (code) {
		history.replaceState(null, "", "#/overview");
		const opened = await openSession(code);
		go(opened.request ? `inbox/${opened.request}` : "overview");
	} else if (hasToken()) update({ session: "open" });
	else update({ session: "ended" });
}

const fragment = location.hash.slice(1);
const isCode = /^[0-9a-f]{64}$/.test(fragment);
start(isCode ? fragment : "").catch((error) => {
	update({ session: "ended" });
	notify(error.message, true);
});
addEventListener("hashchange", () => {
	if (/^[0-9a-f]{64}$/.test(location.hash.slice(1))) start(location.hash.slice(1)).catch((error) => notify(error.message, true));
});
document.getElementById("app").textContent = "";
render(html`<${App} />`, document.getElementById("app"));
followStream();
