/** Pages for people. All texts may come from the query of a link: each is escaped. */

/** For every page: nothing of another origin, no script and no style in the page itself, no frame around it. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
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

export interface HtmlPage {
  title: string;
  /** HTML */
  body: string;
  /** path of its style; without one, the browser's own */
  stylesheet?: string | undefined;
  /** path of its script */
  script?: string;
  /** attributes of the body, for the script */
  data?: Readonly<Record<string, string>>;
}

export function htmlPage({ title, body, stylesheet, script, data = {} }: HtmlPage): string {
  const attributes = Object.entries(data).map(([name, value]) => ` data-${name}="${escapeHtml(value)}"`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
${stylesheet === undefined ? '' : `<link rel="stylesheet" href="${escapeHtml(stylesheet)}">\n`}${script === undefined ? '' : `<script src="${escapeHtml(script)}" defer></script>\n`}</head>
<body${attributes.join('')}>
<main>
${body}
</main>
</body>
</html>
`;
}
