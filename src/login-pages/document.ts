import { htmlPage } from '../http/page.ts';

/** A view of the page: the script shows one of them at a time. */
interface View {
  name: string;
  title: string;
  /** HTML */
  content: string;
}

const field = (label: string, name: string, attributes: string) =>
  `<label>${label}<input name="${name}" required ${attributes}></label>`;

const form = (action: string, fields: readonly string[], button: string) =>
  `<form data-action="${action}">
<p class="problem" role="alert"></p>
${fields.join('\n')}
<button type="submit">${button}</button>
</form>`;

const code = field(
  'Code',
  'code',
  'autocomplete="one-time-code" inputmode="numeric" maxlength="64" spellcheck="false" autocapitalize="none"',
);
const newPassword = (label: string, name: string) =>
  field(label, name, 'type="password" autocomplete="new-password" maxlength="128"');

/** One view for each step of a login, for its begin and for its end. */
const VIEWS: readonly View[] = [
  {
    name: 'wait',
    title: 'One moment',
    content: '<p>The page is loading.</p>\n<noscript><p>This page needs JavaScript.</p></noscript>',
  },
  {
    name: 'start',
    title: 'Log in',
    content:
      '<p>Log in to the controller with your e-mail address.</p>\n<a class="button" data-begin href="">Log in</a>',
  },
  {
    name: 'login',
    title: 'Log in',
    content: form(
      'login',
      [
        field('E-mail', 'email', 'autocomplete="username" maxlength="254" spellcheck="false" autocapitalize="none"'),
        field('Password', 'password', 'type="password" autocomplete="current-password"'),
      ],
      'Log in',
    ),
  },
  {
    name: 'mfa',
    title: 'Second factor',
    content: `<p>Type the code that your app shows now, or one of your recovery codes.</p>\n${form('mfa', [code], 'Continue')}`,
  },
  {
    name: 'enroll',
    title: 'Set up a second factor',
    content: `<p>A group of yours asks for a second factor. Scan this with an app for codes, or type the secret there.</p>
<div data-qr></div>
<p><code data-secret></code></p>
<p>Then type the code that the app shows.</p>
${form('confirm-enroll', [code], 'Continue')}`,
  },
  {
    name: 'recovery',
    title: 'Recovery codes',
    content: `<p>Each of these codes counts once in place of a code of the app. They are shown only now: keep them in a safe place.</p>
<ul class="codes" data-codes></ul>
<button type="button" data-continue>I have stored them</button>`,
  },
  {
    name: 'change-password',
    title: 'Choose a password',
    content: `<p>Somebody else chose your present password. Choose one that only you know.</p>
${form(
  'change-password',
  [
    field('Present password', 'currentPassword', 'type="password" autocomplete="current-password"'),
    newPassword('New password', 'newPassword'),
    newPassword('New password again', 'again'),
  ],
  'Change the password',
)}`,
  },
  {
    name: 'done',
    title: 'Logged in',
    content: `<p data-name></p>
<p class="problem" role="alert"></p>
<p>Programs send this token with their requests. It is valid for some minutes, and this page forgets it when it is closed.</p>
<textarea readonly rows="4" aria-label="Access token" data-token></textarea>
<button type="button" data-copy>Copy</button>
<button type="button" class="plain" data-logout>Log out</button>`,
  },
  {
    name: 'logged-out',
    title: 'Logged out',
    content: '<p>You are logged out of the controller.</p>\n<a class="button" data-begin href="">Log in</a>',
  },
  {
    name: 'error',
    title: 'The login cannot continue',
    content: '<p class="problem" role="alert"></p>\n<a class="button" data-begin href="">Begin again</a>',
  },
];

export const LOGIN_VIEWS: readonly string[] = VIEWS.map(({ name }) => name);

/** `pages`: path of the pages; `api`: path of the controller. Both without a slash at the end. */
export const loginDocument = ({ pages, api }: { pages: string; api: string }): string =>
  htmlPage({
    title: 'Log in',
    stylesheet: `${pages}/login.css`,
    script: `${pages}/login.js`,
    data: { api },
    body: VIEWS.map(
      ({ name, title, content }) =>
        `<section data-view="${name}"${name === 'wait' ? '' : ' hidden'}>\n<h1 tabindex="-1">${title}</h1>\n${content}\n</section>`,
    ).join('\n'),
  });
