// Talks to the API: requests with the token in a header, and a stream that goes on where it broke off.
export class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

export async function ask(token, path, options = {}) {
  const headers = { authorization: `Bearer ${token}`, ...(options.headers ?? {}) };
  const found = await fetch(`/v1${path}`, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (!found.ok) {
    const told = await found.json().catch(() => ({}));
    throw new Refused(found.status, told.owner ? `${told.detail} Open ${told.owner}/ instead.` : told.detail ?? `The service answered ${found.status}.`);
  }
  return found.status === 204 ? null : found.json();
}

// Calls on.event(kind, data) for everything that happens, and on.state("on" | "off" | "refused", error).
export function watch(token, path, on) {
  const end = new AbortController();
  let last = null;
  (async () => {
    for (let wait = 500; !end.signal.aborted; wait = Math.min(wait * 2, 8000)) {
      try {
        const headers = { authorization: `Bearer ${token}`, ...(last === null ? {} : { "last-event-id": last }) };
        const found = await fetch(`/v1${path}/stream`, { headers, signal: end.signal, cache: "no-store", credentials: "omit" });
        if (!found.ok) {
          const told = await found.json().catch(() => ({}));
          on.state("refused", new Refused(found.status, told.detail ?? "refused"));
          if ([401, 403, 404].includes(found.status)) return;
        } else {
          on.state("on");
          wait = 500;
          for await (const event of events(found.body)) {
            if (event.id !== undefined) last = event.id;
            if (event.data) on.event(event.kind, JSON.parse(event.data));
          }
        }
      } catch (error) {
        if (end.signal.aborted) return;
      }
      on.state("off");
      await new Promise((done) => setTimeout(done, wait));
    }
  })();
  return () => end.abort();
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let at = rest.indexOf("\n\n"); at >= 0; at = rest.indexOf("\n\n")) {
      const event = {};
      for (const line of rest.slice(0, at).split("\n")) {
        const [name, text] = [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)];
        if (name === "event") event.kind = text;
        else if (name === "id") event.id = text;
        else if (name === "data") event.data = (event.data ?? "") + text;
      }
      rest = rest.slice(at + 2);
      if (event.kind) yield event;
    }
  }
}
