import fc from 'fast-check';
import { expect, test } from 'vitest';
import { keyProblem } from '../wire/volume-mounts.ts';
import { busAccessOf, busSlug, withoutBusVariables } from './bus-access.ts';

test.each([
  ['Plant A', 'plant-a'],
  ['  --Line__1!!  ', 'line-1'],
  ['a-b', 'a-b'],
  ['Ж', 'default'],
  ['', 'default'],
  [`${'a'.repeat(47)}--b`, 'a'.repeat(47)],
])('the slug of %j is %j', (text, slug) => expect(busSlug(text)).toBe(slug));

test('the path of the credentials is a path below their directory, whatever the names are', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (application, microservice) => {
      const access = busAccessOf({ application, microservice, hostNetwork: false, localBus: { serverPort: 4222 } });
      expect(access?.path).toBe(`/etc/bus/creds/${access?.file}`);
      expect(access?.file).toMatch(/^[a-z0-9-]{1,64}\/[a-z0-9-]{1,64}\.creds$/);
      expect(keyProblem(access?.file ?? '')).toBeUndefined();
    }),
  );
});

const names = { application: 'a', microservice: 'b' };
const hub = { host: 'hub.example', serverPort: 4300 };
test.each([
  [{ hostNetwork: true, localBus: { serverPort: 4222 }, hub }, 'nats://localhost:4222'],
  [{ hostNetwork: false, localBus: { serverPort: 4222 }, hub }, 'nats://bus.default.svc.bridge.local:4222'],
  [{ hostNetwork: true, hub }, 'nats://hub.example:4300'],
  [{ hostNetwork: false, hub: { ...hub, host: '2001:db8::1' } }, 'nats://[2001:db8::1]:4300'],
  [{ hostNetwork: false }, undefined],
  [{ hostNetwork: true, localBus: { serverPort: 4222, hasTls: true }, hub }, 'tls://localhost:4222'],
  [
    { hostNetwork: false, localBus: { serverPort: 4222 }, hub: { ...hub, hasTls: true } },
    'nats://bus.default.svc.bridge.local:4222',
  ],
  [{ hostNetwork: false, hub: { ...hub, hasTls: true } }, 'tls://hub.example:4300'],
])('a container at %j reaches its server at %s', (places, url) =>
  expect(busAccessOf({ ...names, ...places })?.serverUrl).toBe(url),
);

test('a body loses the variables that a read shows of the access, and keeps the variables of a user', () => {
  const shown = [
    { key: 'BUS_CREDS_PATH', value: '/etc/bus/creds/a/b.creds' },
    { key: 'BUS_SERVER_URL', value: 'nats://localhost:4222' },
  ];
  const own = [
    { key: 'MODE', value: 'fast' },
    { key: 'BUS_SERVER_URL', value: 'nats://mine:4222' },
  ];
  const overTls = [...shown.slice(0, 1), { key: 'BUS_SERVER_URL', value: 'tls://localhost:4222' }];
  const ca = { key: 'BUS_CA_PATH', value: '/etc/bus/creds/ca.crt' };
  expect(withoutBusVariables([...overTls, ca, ...own])).toEqual([own[0]]);
  expect(withoutBusVariables([ca])).toEqual([ca]);
  expect(withoutBusVariables([...shown, { key: 'MODE', value: 'fast' }])).toEqual([{ key: 'MODE', value: 'fast' }]);
  expect(withoutBusVariables(own)).toEqual(own);
  expect(withoutBusVariables([{ key: 'BUS_CREDS_PATH', value: '/mine' }])).toHaveLength(1);
});
