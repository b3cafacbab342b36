// The JSON API, as anybody may use it; docs/web.md describes it.

let token = null;

/** The token of the address, which is taken out of it; it stays for as long as the tab does. */
export function takeToken() {
  const given = /[#&]token=([\w-]+)/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("muntin-token", given[1]);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("muntin-token");
  return token !== null;
}

export class Refusal extends Error {
  constructor(status, said) {
    super(said.told ?? [said.error, said.hint].filter(Boolean).join("\n  hint: "));
    this.status = status;
    this.place = said.place ?? null;
  }
}

export async function ask(path, method = "GET", body = undefined) {
  const headers = method === "GET" ? {} : { "X-Muntin-Token": token ?? "", "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const said = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Refusal(answer.status, said);
  return said;
}

/** Ask for a change and wait until it is in force; `tell` hears how it goes. */
export async function change(path, method, body, tell) {
  const sent = await ask(path, method, body);
  if (!sent.running) return sent;
  tell("sent, waiting for the job");
  for (let n = 0; ; n += 1) {
    await new Promise((done) => setTimeout(done, n < 20 ? 250 : 1000));
    const found = await ask(`/api/requests/${sent.id}`, "POST");
    if (found.state === "refused") throw new Refusal(422, { told: [found.error, found.hint].filter(Boolean).join("\n  hint: ") });
    if (found.state === "in force") return found;
    if (found.state === "accepted") tell("accepted, in force with a micro-batch to come");
  }
}

/** Listen to the job; the browser comes back by itself where the connection is lost. */
export function listen(onStatus, onTrouble, onConnection) {
  const events = new EventSource("/api/events");
  events.addEventListener("open", () => onConnection(true));
  events.addEventListener("error", () => {
    onConnection(false);
    if (events.readyState === EventSource.CLOSED) setTimeout(() => listen(onStatus, onTrouble, onConnection), 3000);
  });
  events.addEventListener("status", (event) => onStatus(JSON.parse(event.data)));
  events.addEventListener("trouble", (event) => onTrouble(JSON.parse(event.data).error));
}
