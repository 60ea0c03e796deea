import { expect, test } from 'vitest';
import { controllerUrl } from './controller-address.ts';

test.each([
  ['c.example:51121', false, 'http://c.example:51121'],
  ['c.example:51121', true, 'https://c.example:51121'],
  ['https://c.example', false, 'https://c.example'],
  ['https://c.example:51121/', true, 'https://c.example:51121'],
  ['http://c.example:51121', false, 'http://c.example:51121'],
  [undefined, false, 'http://controller:51121'],
])('a machine reaches the controller at %s (own authority: %s) under %s', (address, hasAuthority, url) => {
  expect(controllerUrl(address, hasAuthority).origin).toBe(url);
});

test.each([
  ['ftp://c.example', false],
  ['skerry://c.example:51121', false],
  ['https://c.example/path', false],
  ['https://user@c.example', false],
  ['', false],
  ['http://c.example:51121', true],
])('"%s" (own authority: %s) is no address of the controller', (address, hasAuthority) => {
  expect(() => controllerUrl(address, hasAuthority)).toThrow(`the address of the controller is "${address}"; `);
});
