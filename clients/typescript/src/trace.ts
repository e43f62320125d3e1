/** Trace context of the active span, if `@opentelemetry/api` is installed. */

interface Api {
  context: { active(): unknown };
  propagation: { inject(context: unknown, carrier: Record<string, string>): void };
}

let api: Promise<Api | undefined> | undefined;

async function load(): Promise<Api | undefined> {
  try {
    // Not a literal: the package is optional, also for the type checker.
    const name: string = "@opentelemetry/api";
    return (await import(name)) as Api;
  } catch {
    return undefined;
  }
}

/** Returns `traceparent` and `tracestate` of the active span, or nothing outside of a span. */
export async function currentTraceContext(): Promise<{ traceparent: string; tracestate?: string } | undefined> {
  api ??= load();
  const loaded = await api;
  if (!loaded) return undefined;
  const { traceparent, tracestate } = injected(loaded);
  return traceparent ? { traceparent, ...(tracestate ? { tracestate } : {}) } : undefined;
}

function injected(loaded: Api): { traceparent?: string; tracestate?: string } {
  const carrier: Record<string, string> = {};
  loaded.propagation.inject(loaded.context.active(), carrier);
  return carrier;
}
