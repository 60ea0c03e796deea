import { escapeHtml, htmlPage } from '../http/page.ts';

/** The pages of the provider itself. `stylesheet`: the path of their style, where there is one. */

const page = (title: string, body: string, stylesheet: string | undefined) =>
  htmlPage({ title, body: `<h1>${escapeHtml(title)}</h1>\n${body}`, stylesheet });

export const errorPage = (error: string, description: string | undefined, stylesheet?: string): string =>
  page(
    'The login cannot continue',
    `<p>${escapeHtml(description ?? error)}</p>\n<p><code>${escapeHtml(error)}</code></p>`,
    stylesheet,
  );

/** `form`: of the library, with the token against forged requests. */
export const logoutPage = (form: string, stylesheet?: string): string =>
  page(
    'Log out',
    `<p>Do you want to log out of the controller?</p>\n${form}\n<button autofocus type="submit" form="op.logoutForm" name="logout" value="yes">Log out</button>`,
    stylesheet,
  );

export const loggedOutPage = (stylesheet?: string): string =>
  page('Logged out', '<p>You are logged out of the controller.</p>', stylesheet);
