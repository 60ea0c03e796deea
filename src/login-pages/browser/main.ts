/**
 * The script of the pages of a login. It takes the steps of an interaction by the JSON routes of the controller and shows the view of
 * the next one. `npm run gen` bundles it into src/login-pages/script.json.
 */
import { drawCode } from './qr.ts';

type Reply = {
  step?: string;
  secret?: string;
  otpauthUrl?: string;
  recoveryCodes?: string[];
  redirectTo?: string;
  message?: string;
  code?: string;
};

class Refused extends Error {
  readonly status: number;
  readonly code: string;
  /** seconds after which another try may succeed */
  readonly wait: number;

  constructor(status: number, code: string, message: string, wait = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }
}

const UID = 'skerry-interaction';
const api = `${document.body.dataset.api}/api/v3/user`;

const one = <T extends Element>(selector: string, within: ParentNode = document): T => {
  const found = within.querySelector<T>(selector);
  if (!found) throw new Error(`the page has no ${selector}`);
  return found;
};
const view = (name: string) => one<HTMLElement>(`[data-view="${name}"]`);

/** Shows one view, and puts the focus where people type. */
function show(name: string, problem = ''): HTMLElement {
  const shown = view(name);
  for (const other of document.querySelectorAll<HTMLElement>('[data-view]')) other.hidden = other !== shown;
  document.title = one('h1', shown).textContent ?? '';
  say(shown, problem);
  (shown.querySelector<HTMLElement>('input:not([hidden] input), a.button') ?? one<HTMLElement>('h1', shown)).focus();
  return shown;
}

function say(where: ParentNode, problem: string): void {
  const place = where.querySelector('.problem');
  if (place) place.textContent = problem;
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** Asks the controller. Throws Refused with words for people. */
async function ask(method: string, path: string, body?: object, token?: string): Promise<Reply> {
  let response: Response;
  try {
    response = await fetch(`${api}${path}`, {
      method,
      credentials: 'same-origin',
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
  } catch {
    throw new Refused(0, '', 'The controller does not answer. Try again.');
  }
  const reply = (await response.json().catch(() => ({}))) as Reply;
  if (response.ok) return reply;
  const wait = Number(response.headers.get('retry-after'));
  const more = wait > 0 ? ` Try again in ${wait} s.` : '';
  throw new Refused(
    response.status,
    reply.code ?? '',
    sentence(reply.message ?? `The controller answers ${response.status}`) + more,
    wait,
  );
}

const TRIES = 5;

/** The same for what nobody has typed: it is asked again while the controller asks for patience. */
async function askPatiently(method: string, path: string, body?: object): Promise<Reply> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask(method, path, body);
    } catch (error) {
      if (!(error instanceof Refused) || error.wait === 0 || tries === TRIES) throw error;
      const { wait } = error;
      await new Promise((resolve) => setTimeout(resolve, wait * 1000));
    }
  }
}

/** Whether another try cannot help. */
const isOver = (error: unknown) => error instanceof Refused && error.code === 'INTERACTION_EXPIRED';
const wordsOf = (error: unknown) => (error instanceof Refused ? error.message : 'The page has failed. Begin again.');

/** The steps of one interaction. */
function interact(uid: string): void {
  /** typed at the login, so that a change of the password does not ask for it again; never stored */
  let password = '';
  const path = `/interaction/${encodeURIComponent(uid)}`;

  function end(problem: string): void {
    sessionStorage.removeItem(UID);
    show('error', problem);
  }

  const views: Record<string, () => void | Promise<void>> = {
    login: () => void show('login'),
    mfa: () => void show('mfa'),
    enroll,
    'confirm-enroll': enroll,
    'change-password'() {
      const shown = view('change-password');
      const present = one<HTMLInputElement>('[name="currentPassword"]', shown);
      present.value = password;
      one<HTMLElement>('label', shown).hidden = password !== '';
      show('change-password');
    },
    async complete() {
      const { redirectTo = '' } = await askPatiently('POST', `${path}/complete`, {});
      const target = new URL(redirectTo);
      if (target.origin !== location.origin) throw new Refused(0, '', 'The login leads to another place.');
      sessionStorage.removeItem(UID);
      location.replace(target);
    },
  };

  /** A secret is shown once: a page that is loaded again begins the enrolment anew. */
  async function enroll(): Promise<void> {
    const { secret = '', otpauthUrl = '' } = await askPatiently('POST', `${path}/enroll`, {});
    const shown = view('enroll');
    one('[data-qr]', shown).replaceChildren(drawCode(otpauthUrl));
    one('[data-secret]', shown).textContent = (secret.match(/.{1,4}/g) ?? []).join(' ');
    show('enroll');
  }

  async function go(step = ''): Promise<void> {
    try {
      const next = views[step];
      if (!next) throw new Refused(0, '', 'This page does not know the next step.');
      await next();
    } catch (error) {
      end(wordsOf(error));
    }
  }

  async function submit(form: HTMLFormElement): Promise<void> {
    const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    const { again, ...body } = fields;
    if (again !== undefined && again !== body.newPassword) return say(form, 'The two new passwords differ.');
    const button = one<HTMLButtonElement>('button', form);
    button.disabled = true;
    say(form, '');
    try {
      const reply = await ask('POST', `${path}/${form.dataset.action}`, body);
      if (body.password) password = body.password;
      form.reset();
      if (reply.recoveryCodes) showRecovery(reply.recoveryCodes, reply.step);
      else await go(reply.step);
    } catch (error) {
      if (isOver(error)) return end(wordsOf(error));
      // The steps have changed in another tab.
      if (error instanceof Refused && error.code === 'WRONG_STEP') return void begin();
      say(form, wordsOf(error));
      const input = [...form.querySelectorAll('input')].reverse().find(({ type }) => type === 'password');
      const wrong = input ?? one<HTMLInputElement>('input', form);
      wrong.focus();
      wrong.select();
    } finally {
      button.disabled = false;
    }
  }

  function showRecovery(codes: readonly string[], step: string | undefined): void {
    const shown = show('recovery');
    const items = codes.map((code) => Object.assign(document.createElement('li'), { textContent: code }));
    one('[data-codes]', shown).replaceChildren(...items);
    const button = one<HTMLButtonElement>('[data-continue]', shown);
    button.onclick = () => {
      button.onclick = null;
      one('[data-codes]', shown).replaceChildren();
      void go(step);
    };
  }

  async function begin(): Promise<void> {
    try {
      const { step } = await askPatiently('GET', path);
      await go(step);
    } catch (error) {
      end(wordsOf(error));
    }
  }

  for (const form of document.querySelectorAll('form'))
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form);
    });
  void begin();
}

/** The end of a login: the tokens are in the memory of this page alone. */
function showTokens(token: string): void {
  const shown = show('done');
  const text = one<HTMLTextAreaElement>('[data-token]', shown);
  text.value = token;
  one('[data-copy]', shown).addEventListener('click', async () => {
    text.select();
    await navigator.clipboard?.writeText(token).catch(() => {});
  });
  one('[data-logout]', shown).addEventListener('click', async () => {
    try {
      await ask('POST', '/logout', {}, token);
      text.value = '';
      show('logged-out');
    } catch (error) {
      say(shown, wordsOf(error));
    }
  });
  void ask('GET', '/profile', undefined, token)
    .then((profile) => {
      const { preferred_username: name } = profile as { preferred_username?: string };
      one('[data-name]', shown).textContent = name === undefined ? '' : `You are ${name}.`;
    })
    .catch((error) => say(shown, wordsOf(error)));
}

const PROBLEMS: Readonly<Record<string, string>> = {
  access_denied: 'The login was refused.',
  login_expired: 'The login took too long, or another browser began it.',
  opaque_token: 'The provider gives tokens that this controller cannot read. Ask your administrator.',
  missing_groups: 'The provider says no groups of you: no role counts. Ask your administrator.',
};

function main(): void {
  const query = new URLSearchParams(location.search);
  const fragment = new URLSearchParams(location.hash.slice(1));
  // Neither the interaction nor a token stays in the address or in the history.
  if (location.search !== '' || location.hash !== '') history.replaceState(null, '', location.pathname);
  for (const link of document.querySelectorAll<HTMLAnchorElement>('[data-begin]')) link.href = `${api}/oauth/authorize`;
  const begun = query.get('interaction');
  if (begun !== null) sessionStorage.setItem(UID, begun);
  const uid = sessionStorage.getItem(UID);
  const token = fragment.get('accessToken');
  const problem = query.get('oauthError');
  if (token !== null) {
    sessionStorage.removeItem(UID);
    showTokens(token);
    if (problem !== null) say(view('done'), PROBLEMS[problem] ?? '');
  } else if (problem !== null) show('error', PROBLEMS[problem] ?? 'The login has failed.');
  else if (uid !== null) interact(uid);
  else show('start');
}

main();
