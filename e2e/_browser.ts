/** A browser: it keeps cookies by name and path, and follows no redirect by itself. */
export interface Browser {
  (url: string | URL, init?: RequestInit): Promise<Response>;
  /** names and values of all cookies that it has */
  cookies(): [name: string, value: string][];
}

interface Cookie {
  name: string;
  value: string;
  path: string;
}

export function openBrowser(): Browser {
  const jar: Cookie[] = [];
  const request = async (url: string | URL, init: RequestInit = {}) => {
    const { pathname } = new URL(url);
    const sent = jar.filter(({ path, value }) => value !== '' && pathname.startsWith(path));
    const headers = {
      ...(init.headers as object),
      cookie: sent.map(({ name, value }) => `${name}=${value}`).join('; '),
    };
    const response = await fetch(url, { redirect: 'manual', ...init, headers });
    for (const text of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = text.split(/; ?/);
      const [, name = '', value = ''] = /^([^=]*)=(.*)$/.exec(pair) ?? [];
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/';
      const known = jar.find((one) => one.name === name && one.path === path);
      if (known) known.value = value;
      else jar.push({ name, value, path });
    }
    return response;
  };
  return Object.assign(request, {
    cookies: () => jar.filter(({ value }) => value !== '').map(({ name, value }): [string, string] => [name, value]),
  });
}

/** Where a response leads to. */
export const placeOf = (response: Response): string => {
  const location = response.headers.get('location');
  if (location === null) throw new Error(`${response.url} answered ${response.status} and leads nowhere`);
  return new URL(location, response.url).href;
};

/** Follows redirects to the first place that `isEnd` accepts, which is not asked. */
export async function follow(browser: Browser, start: string, isEnd: (place: URL) => boolean): Promise<string> {
  let place = start;
  for (let step = 0; step < 10 && !isEnd(new URL(place)); step += 1) place = placeOf(await browser(place));
  return place;
}

/** Whether a place is the page of an interaction. */
export const isLoginPage = (place: URL): boolean => place.searchParams.has('interaction');

/**
 * Sends the steps of an interaction of the controller, as its pages do, to the place where the login continues. The page is at `url`.
 */
export async function logInAt(
  browser: Browser,
  url: string,
  { email, password }: { email: string; password: string },
): Promise<string> {
  const { origin, searchParams } = new URL(url);
  const step = async (to: string, json: object) => {
    const response = await browser(`${origin}/api/v3/user/interaction/${searchParams.get('interaction')}/${to}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: JSON.stringify(json),
    });
    const body = (await response.json()) as { step?: string; redirectTo?: string; message?: string };
    if (response.status !== 200) throw new Error(`${to}: ${response.status} ${body.message}`);
    return body;
  };
  const { step: next } = await step('login', { email, password });
  if (next !== 'complete') throw new Error(`the login asks for ${next}`);
  const { redirectTo } = await step('complete', {});
  if (redirectTo === undefined) throw new Error('the login leads nowhere');
  return redirectTo;
}
