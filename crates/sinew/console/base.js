// Base of every screen: rendering, the connection to the server, the shared state, and formats.
// Text becomes a text node and never markup: nothing here or in a screen parses HTML.

import { h, render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { h, render, useEffect, useLayoutEffect, useRef, useState };

const TOKEN = "sinew.token";
/** Longest silence of the stream: the server sends a tick every two seconds. */
const STALL_MS = 7000;
const MAX_ROWS = 1000;

/**
 * @typedef {{seq:number, time_ms:number, kind:string, call_id?:string, tool:string, target:string, outcome:string,
 *   word:string, mode:string, caller:string, session:string, rule?:string, latency_us?:number, approval_id?:string}} Row
 */

/** A request that was refused or failed. */
export class ApiFailure extends Error {
	/** @param {number} status @param {{code:string, message:string, data:any}} error */
	constructor(status, error) {
		super(error.message);
		Object.assign(this, { status, code: error.code, data: error.data });
	}
}

/* ---- shared state ---- */

/** State that several screens show. `listeners` are called at most once for each frame. */
export const store = {
	/** @type {any} */ header: null,
	/** @type {Row[]} newest first */ rows: [],
	connected: false,
	/** "opening", "open", "ended" */ session: "opening",
	heardAt: 0,
	lastSeq: null,
	/** @type {{text:string, bad:boolean}|null} */ notice: null,
	version: 0,
};
const listeners = new Set();
let scheduled = false;

/** Changes the state and tells the screens in the next frame, so that a thousand events are one update. */
export function update(change) {
	Object.assign(store, change);
	store.version += 1;
	if (scheduled) return;
	scheduled = true;
	const tell = () => {
		scheduled = false;
		for (const listener of [...listeners]) listener(store.version);
	};
	// A hidden page has no frames.
	if (document.hidden) setTimeout(tell, 250);
	else requestAnimationFrame(tell);
}

/** Renders the calling component again when the state changes. */
export function useStore() {
	const [, set] = useState(0);
	useEffect(() => {
		listeners.add(set);
		return () => void listeners.delete(set);
	}, []);
	return store;
}

let noticeTimer = 0;
/** Shows a message in the status line, which screen readers announce. */
export function notify(text, bad = false) {
	update({ notice: { text, bad } });
	clearTimeout(noticeTimer);
	noticeTimer = setTimeout(() => update({ notice: null }), bad ? 12000 : 5000);
}

/* ---- server ---- */

function post(name, params, token, signal) {
	const headers = { "content-type": "application/json" };
	if (token) headers.authorization = `Bearer ${token}`;
	return fetch(`/api/${name}`, { method: "POST", headers, body: JSON.stringify(params), signal,
		credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
}

/** Sends a request and returns its result. @param {string} name @param {object} [params] @param {AbortSignal} [signal] */
export async function api(name, params = {}, signal) {
	let response;
	try {
		response = await post(name, params, sessionStorage.getItem(TOKEN), signal);
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new ApiFailure(0, { code: "gone", message: "The console does not answer: is `sinew console` still running?" });
	}
	const body = await response.json().catch(() => ({ error: { code: "failed", message: `HTTP ${response.status}` } }));
	if (response.ok && !body.error) return body.result;
	if (body.error.code === "no_session") endSession();
	throw new ApiFailure(response.status, body.error);
}

function endSession() {
	sessionStorage.removeItem(TOKEN);
	update({ session: "ended", connected: false });
}

/** Exchanges the code of a link. @param {string} code */
export async function openSession(code) {
	const result = await api("open", { code });
	sessionStorage.setItem(TOKEN, result.token);
	update({ session: "open" });
	return result;
}

export function hasToken() {
	return sessionStorage.getItem(TOKEN) !== null;
}

/** Follows the stream of the server, and resumes after the last sequence number when it breaks. */
export async function followStream() {
	let wait = 250;
	for (;;) {
		if (store.session === "open") {
			const abort = new AbortController();
			const watchdog = setInterval(() => {
				if (Date.now() - store.heardAt > STALL_MS + 3000) abort.abort();
				else update({});
			}, 1000);
			update({ heardAt: Date.now() });
			try {
				const response = await post("stream", { after: store.lastSeq }, sessionStorage.getItem(TOKEN), abort.signal);
				if (response.status === 401) endSession();
				if (response.ok) {
					wait = 250;
					await readEvents(response.body.getReader());
				}
			} catch {
				// The next attempt follows.
			}
			clearInterval(watchdog);
			update({ connected: false });
		}
		await new Promise((resolve) => setTimeout(resolve, wait));
		wait = Math.min(wait * 2, 4000);
	}
}

async function readEvents(reader) {
	const decoder = new TextDecoder();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text += decoder.decode(value, { stream: true });
		const blocks = text.split("\n\n");
		text = blocks.pop();
		for (const block of blocks) handleEvent(block);
		update({ heardAt: Date.now() });
	}
}

function handleEvent(block) {
	const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
	const data = JSON.parse(field("data") ?? "null");
	if (field("id")) store.lastSeq = Number(field("id"));
	switch (field("event")) {
		case "header":
			return update({ header: data.header, connected: data.connected });
		case "rows":
			return update({ rows: data.reverse().concat(store.rows).slice(0, MAX_ROWS) });
		case "gap":
			return update({ rows: [], gap: data });
		case "ended":
			return endSession();
		case "tick":
			if (store.lastSeq === null) store.lastSeq = data.head;
	}
}

/** True if the stream is silent for longer than its heartbeat allows. */
export function isStalled() {
	return store.session === "open" && Date.now() - store.heardAt > STALL_MS;
}

/* ---- data of a screen ---- */

/**
 * Loads data, again after `every` milliseconds and whenever `key` changes. A hidden page does not ask.
 * @returns {{data:any, error:ApiFailure|null, loading:boolean, reload:() => void}}
 */
export function useData(name, params = {}, { every = 0, key = "" } = {}) {
	const [state, set] = useState({ data: null, error: null, loading: true });
	const [turn, again] = useState(0);
	const id = `${name} ${JSON.stringify(params)} ${key} ${turn}`;
	useEffect(() => {
		const abort = new AbortController();
		let timer = 0;
		const load = async () => {
			try {
				const data = document.hidden && state.data ? state.data : await api(name, params, abort.signal);
				if (!abort.signal.aborted) set({ data, error: null, loading: false });
			} catch (error) {
				if (error.name !== "AbortError" && !abort.signal.aborted) set((old) => ({ ...old, error, loading: false }));
			}
			if (every && !abort.signal.aborted) timer = setTimeout(load, every);
		};
		load();
		return () => {
			abort.abort();
			clearTimeout(timer);
		};
	}, [id, every]);
	return { ...state, reload: () => again((n) => n + 1) };
}

/* ---- place in the console ---- */

/** The fragment as a screen, the rest of its path, and a filter. */
export function place() {
	const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
	const [screen, ...rest] = path.split("/").map((part) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return part;
		}
	});
	return { screen: screen || "overview", rest, filter: Object.fromEntries(new URLSearchParams(query)) };
}

/** Address of a screen. @param {string} path @param {Record<string, any>} [filter] */
export function href(path, filter = {}) {
	const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "" && value != null));
	const text = query.toString();
	return `#/${path}${text ? `?${text}` : ""}`;
}

export function go(path, filter) {
	location.hash = href(path, filter).slice(1);
}

export function usePlace() {
	const [now, set] = useState(place);
	useEffect(() => {
		const moved = () => set(place());
		addEventListener("hashchange", moved);
		return () => removeEventListener("hashchange", moved);
	}, []);
	return now;
}

/* ---- formats ---- */

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** Time of day, with the date if it is another day. */
export function time(ms) {
	if (!ms) return "";
	const date = new Date(ms);
	const today = new Date().toDateString() === date.toDateString();
	return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

export function duration(us) {
	if (us == null) return "";
	if (us < 1000) return `${us} µs`;
	if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
	return span(us / 1e6);
}

export function span(seconds) {
	const s = Math.max(0, seconds);
	if (s < 10) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
	if (s < 90) return `${Math.round(s)} s`;
	if (s < 5400) return `${Math.round(s / 60)} min`;
	return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

export function count(n) {
	return (n ?? 0).toLocaleString("en").replaceAll(",", "\u202f");
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
