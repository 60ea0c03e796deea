import { expect, test } from 'vitest';
import type { Application } from '../../../api/v3/index.ts';
import { accessAskedBy } from './access.ts';

const APP_UUID = '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5b01';
const withAccess = { busConfig: { busAccess: true } };
const make = (spec: object, metadata: object = {}): Application =>
  ({
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name: 'shop', namespace: 'plant', uid: APP_UUID, ...metadata },
    spec: { ...withAccess, ...spec },
  }) as Application;

test('an application with access asks for a user of each microservice that asks, in either spelling', () => {
  const entries = [
    { name: 'pump', ...withAccess },
    { name: 'valve', busEnabled: true },
    { name: 'lamp' },
    { name: 'dark', busConfig: { busAccess: false }, busEnabled: false },
    { name: 'meter', busConfig: { busAccess: true, busRule: 'readers' }, uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5b02' },
  ];
  const asked = accessAskedBy(make({ busConfig: { busAccess: true, busRule: 'small' }, microservices: entries }));
  expect(asked?.rule).toBe('small');
  expect(asked?.users.map(({ name, rule }) => [name, rule])).toEqual([
    ['pump', undefined],
    ['valve', undefined],
    ['meter', 'readers'],
  ]);
  expect(asked?.users[2]?.microserviceUuid).toBe('7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5b02');
});

test.each([
  ['without access', make({ busConfig: { busRule: 'small' }, microservices: [{ name: 'pump', ...withAccess }] })],
  ['of the system', make({ isSystem: true })],
  ['in deletion', make({}, { deletionTimestamp: '2030-01-01T00:00:00Z' })],
  ['called as an account of the system', make({}, { name: 'controller' })],
  ['with the name of an account of the system', make({ name: 'controller' })],
])('an application %s asks for nothing', (_, application) => {
  expect(accessAskedBy(application)).toBeUndefined();
});
