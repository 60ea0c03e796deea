import { expect, test } from 'vitest';
import { cdiDevicesIn, isCdiFile, missingDevices } from './cdi.ts';

test.each([
  [
    'YAML',
    'cdiVersion: "0.6.0"\nkind: vendor.com/gpu\ndevices:\n  - name: "0"\n    containerEdits: {}\n  - name: all\n',
  ],
  ['JSON', '{"cdiVersion": "0.6.0", "kind": "vendor.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}'],
])('a CDI specification in %s names its devices by vendor, class and name', (_, text) => {
  expect(cdiDevicesIn(text)).toEqual(['vendor.com/gpu=0', 'vendor.com/gpu=all']);
});

test.each<[string, string, RegExp]>([
  ['is no YAML', 'kind: [', /./],
  ['is no object', 'hello', /kind must be/],
  ['has no kind', 'devices: []', /kind must be/],
  ['has a kind without class', 'kind: vendor.com\ndevices: []', /kind must be/],
  ['has a kind that leaves its directory', 'kind: ../x/gpu\ndevices: []', /kind must be/],
  ['has no list of devices', 'kind: v/c\ndevices: {}', /devices must be a list/],
  ['has a device without name', 'kind: v/c\ndevices: [{}]', /devices\[0\]\.name/],
  ['has a device whose name is a number', 'kind: v/c\ndevices: [{name: 0}]', /devices\[0\]\.name/],
  ['has a device with a blank in its name', 'kind: v/c\ndevices: [{name: a}, {name: "a b"}]', /devices\[1\]\.name/],
  ['has a device with too long a name', `kind: v/c\ndevices: [{name: ${'a'.repeat(300)}}]`, /too long/],
])('a CDI specification that %s is refused', (_, text, message) => expect(() => cdiDevicesIn(text)).toThrow(message));

test('CDI specifications are files in JSON and YAML', () => {
  expect(['a.json', 'a.yaml', 'a.yml', 'a.txt', 'json', '.yaml.swp'].filter(isCdiFile)).toEqual([
    'a.json',
    'a.yaml',
    'a.yml',
  ]);
});

test('a device that the machine lacks is named with those that it has', () => {
  expect(missingDevices(['v/c=a'], ['v/c=a', 'v/c=b'])).toBeUndefined();
  expect(missingDevices(['v/c=a', 'v/c=x'], ['v/c=a'])).toBe(
    'cdiDevices: no CDI specification of this machine names v/c=x; it has v/c=a',
  );
  expect(missingDevices(['v/c=x'], [])).toMatch(/it has none$/);
});
