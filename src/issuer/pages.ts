/** What the provider shows to people. All texts may come from the query of a link: each is escaped. */

/** For every answer of the provider; `script-src` is there for the library, which adds the hash of the script of its form. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'x-frame-options': 'DENY',
};

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');

const page = (title: string, body: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
</head>
<body>
<main>
<h1>${escapeHtml(title)}</h1>
${body}
</main>
</body>
</html>
`;

export const errorPage = (error: string, description: string | undefined): string =>
  page(
    'The login cannot continue',
    `<p>${escapeHtml(description ?? error)}</p>\n<p><code>${escapeHtml(error)}</code></p>`,
  );

/** `form`: of the library, with the token against forged requests. */
export const logoutPage = (form: string): string =>
  page(
    'Log out',
    `<p>Do you want to log out of the controller?</p>\n${form}\n<button autofocus type="submit" form="op.logoutForm" name="logout" value="yes">Log out</button>`,
  );

export const loggedOutPage = (): string => page('Logged out', '<p>You are logged out of the controller.</p>');
