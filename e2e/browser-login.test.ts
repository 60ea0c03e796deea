import { describe, expect, test } from 'vitest';
import { startChromium } from '../hack/chromium.ts';
import { atEnd } from '../testing/at-end.ts';
import { codeOfPage, fill, PASSWORD, problemOf, shows, startLogins, TEMPORARY } from './_browser-login.ts';

/** A person who logs in with a real browser at the pages of the controller. */

const chromium = await startChromium();
atEnd(() => chromium[Symbol.asyncDispose]());
const { url, admin, user } = await startLogins();
await admin('POST', '/groups', { name: 'divers', mfaRequired: true });

describe('a login in the browser', () => {
  test('enrols a second factor and changes the password, by the keyboard alone, and leaves nothing in the address bar', async () => {
    await user('bo@plant.example', ['divers']);
    await using window = await chromium.open();
    await window.go(`${url}/login`);
    await shows(window, 'start');
    await window.press('Enter');

    await shows(window, 'login');
    expect(await window.run('location.href')).toBe(`${url}/login/oauth`);
    await fill(window, 'bo@plant.example', 'not the password');
    await window.until(`document.querySelector('[data-view="login"] .problem').textContent !== ''`, 'the refusal');
    expect(await problemOf(window)).toBe('The e-mail or the password is not valid.');
    await window.type(TEMPORARY);
    await window.press('Enter');

    await shows(window, 'enroll');
    // The page is loaded again: it continues where it was.
    await window.run('location.reload()');
    await shows(window, 'enroll');
    expect(await window.run(`document.querySelectorAll('[data-qr] svg path').length`)).toBe(1);
    await fill(window, '000000');
    await window.until(`document.querySelector('[data-view="enroll"] .problem').textContent !== ''`, 'the refusal');
    await window.type(await codeOfPage(window));
    await window.press('Enter');

    await shows(window, 'recovery');
    expect(await window.run(`document.querySelectorAll('[data-codes] li').length`)).toBe(10);
    await window.run(`document.querySelector('[data-continue]').click()`);

    await shows(window, 'change-password');
    await fill(window, TEMPORARY, 'short', 'short');
    await window.until(
      `document.querySelector('[data-view="change-password"] .problem').textContent !== ''`,
      'the rules',
    );
    expect(await problemOf(window)).toMatch(/12/);
    await window.run(`document.querySelector('[name="currentPassword"]').focus()`);
    await window.run(`document.querySelector('[name="currentPassword"]').select()`);
    await fill(window, TEMPORARY, PASSWORD, PASSWORD);

    await shows(window, 'done');
    await window.until(`document.querySelector('[data-name]').textContent !== ''`, 'the profile');
    expect(await window.run(`document.querySelector('[data-name]').textContent`)).toBe('You are bo@plant.example.');
    const token = await window.run<string>(`document.querySelector('[data-token]').value`);
    expect(token.split('.')).toHaveLength(3);
    expect(window.problems).toEqual(REFUSALS);
    expect(window.requests.filter((to) => !to.startsWith(`${url}/`))).toEqual([]);
    const addresses = await window.addresses();
    expect(addresses.at(-1)).toBe(`${url}/login`);
    for (const address of addresses) expect(address).not.toMatch(/[?#]|token|code|interaction=/i);
    expect(await window.run('JSON.stringify({ ...sessionStorage, ...localStorage })')).toBe('{}');
    expect(await window.run('document.cookie')).toBe('');
    for (const { name, httpOnly } of await window.cookies()) expect([name, httpOnly]).toEqual([name, true]);

    await window.run(`document.querySelector('[data-logout]').click()`);
    await shows(window, 'logged-out');
  });
});

/** What the browser writes to its console about the three refusals that the story asks for. */
const REFUSALS = ['401', '401', '400'].map((status) => expect.stringContaining(`status of ${status}`));
