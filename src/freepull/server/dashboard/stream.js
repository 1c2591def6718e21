// Talks to the API: requests with the token in a header, and a stream that goes on where it broke off.
const SILENT = 25000; // the service says something every ten seconds, if only that there is nothing new
const AWAY = { detail: "The service cannot be reached.", remedy: "See whether it runs, then try again." };

export class Refused extends Error {
  constructor(status, { detail = `The service answered ${status}.`, remedy = "Try again later.", owner = null }) {
    super(`${detail.charAt(0).toUpperCase()}${detail.slice(1)} ${remedy}`);
    Object.assign(this, { status, owner });
  }
}

async function send(token, path, options) {
  const headers = { ...(token && { authorization: `Bearer ${encodeURI(token)}` }), ...options.headers }; // without one, the session's cookie counts
  const found = await fetch(`/v1${path}`, { ...options, headers, cache: "no-store", credentials: token ? "omit" : "same-origin" }).catch(() => { throw new Refused(0, AWAY); });
  if (!found.ok) throw new Refused(found.status, await found.json().catch(() => ({})));
  return found;
}

export async function ask(token, path, options = {}) {
  const found = await send(token, path, options);
  return found.status === 204 ? null : found.json().catch(() => { throw new Refused(0, AWAY); });
}

// Calls on.event(kind, data) for everything that happens, and on.state("on" | "off" | "stale" | "refused", error).
export function watch(token, path, on) {
  let last = null, ended = false, cut = null;
  (async () => {
    for (let wait = 500; !ended; wait = Math.min(wait * 2, 8000)) {
      let timer = null;
      const mine = cut = new AbortController();
      const heard = () => { // a connection that is silent for long is given up, and a new one made
        clearTimeout(timer);
        timer = setTimeout(() => { on.state("stale"); mine.abort(); }, SILENT);
      };
      heard();
      try {
        const headers = last === null ? {} : { "last-event-id": last };
        const found = await send(token, `${path}/stream?screen=true`, { headers, signal: mine.signal });
        on.state("on");
        wait = 500;
        for await (const event of events(found.body, heard)) {
          if (event.id !== undefined) last = event.id;
          if (event.data) on.event(event.kind, JSON.parse(event.data));
        }
        on.state("off");
      } catch (error) {
        if (ended) return;
        if (!mine.signal.aborted) on.state(error.status ? "refused" : "off", error);
        if ([401, 403, 404].includes(error.status)) return;
      } finally {
        clearTimeout(timer);
      }
      if (!mine.signal.aborted) await new Promise((done) => setTimeout(done, wait));
    }
  })();
  return () => { ended = true; cut.abort(); };
}

async function* events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
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
