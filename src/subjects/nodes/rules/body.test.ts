import { describe, expect, it, test } from 'vitest';
import type { ControlPlane } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import { makeNode } from '../_make.ts';
import { nodeFromBody, patchNode } from './body.ts';
import { type LiveNode, nodeRead } from './read.ts';

const nodeFrom = (body: unknown, controlPlane: ControlPlane = 'kubernetes') => nodeFromBody(body, controlPlane);
const patched = (node: EdgeNode, body: unknown, isBusOn = false) => patchNode(node, body, isBusOn);
const readOf = (node: EdgeNode, live: LiveNode, isBusOn = false) => nodeRead(node, live, { isBusOn });
const refusal = (field: string) => expect.objectContaining({ status: 400, code: 'VALIDATION_ERROR', field });

describe('a node from a create body', () => {
  test.each<[string, Record<string, unknown>, EdgeNodeSpec]>([
    ['a name alone sets only archId', {}, { archId: 0 }],
    ['settings', { archId: 2, diskLimit: 5, tags: ['a'] }, { archId: 2, diskLimit: 5, tags: ['a'] }],
    ['unknown fields are dropped', { bluetoothEnabled: true, uuid: 'x', id: 3 }, { archId: 0 }],
    ['null is absent', { location: null, archId: null }, { archId: 0 }],
    ['empty text is absent', { location: '', host: '', containerEngine: '' }, { archId: 0 }],
    [
      'an engine can be named by its neutral name',
      { containerEngine: 'engine_a' },
      { archId: 0, containerEngine: 'docker' },
    ],
    [
      'a router mode with a host is accepted',
      { routerMode: 'edge', host: 'h' },
      { archId: 0, routerMode: 'edge', host: 'h' },
    ],
    ['router mode none needs no host', { routerMode: 'none' }, { archId: 0, routerMode: 'none' }],
    [
      'coordinates without a mode have the mode manual',
      { latitude: 1, longitude: 2 },
      { archId: 0, latitude: 1, longitude: 2, gpsMode: 'manual' },
    ],
    [
      'coordinates keep a mode that is given',
      { latitude: 1, longitude: 2, gpsMode: 'off' },
      { archId: 0, latitude: 1, longitude: 2, gpsMode: 'off' },
    ],
    ['isSystem false is ignored', { isSystem: false }, { archId: 0 }],
  ])('%s', (_, body, spec) => {
    expect(nodeFrom({ name: 'gw', ...body })).toEqual({ name: 'gw', spec });
  });

  it('accepts any text as a name', () => {
    expect(nodeFrom({ name: 'Gate 1 / north' }).name).toBe('Gate 1 / north');
  });

  it('leaves settings unset that the body does not have, so that the machine decides', () => {
    expect(Object.keys(nodeFrom({ name: 'gw' }).spec)).toEqual(['archId']);
  });

  test.each<[string, unknown, string | undefined]>([
    ['a body that is not an object', [], undefined],
    ['null', null, undefined],
    ['text', 'gw', undefined],
    ['a body without a name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name that is not text', { name: 5 }, 'name'],
    ['a name that is too long', { name: 'x'.repeat(256) }, 'name'],
    ['a number out of range', { name: 'gw', cpuLimit: 401 }, 'cpuLimit'],
    ['a latitude beyond the pole', { name: 'gw', latitude: 91 }, 'latitude'],
    ['a latitude without a longitude', { name: 'gw', latitude: 1 }, 'latitude'],
    ['a longitude without a latitude', { name: 'gw', longitude: 1 }, 'longitude'],
    ['a value of another type', { name: 'gw', diskLimit: 'much' }, 'diskLimit'],
    ['a size without a number', { name: 'gw', jsStorageSize: 'big' }, 'jsStorageSize'],
    ['a system node', { name: 'gw', isSystem: true }, 'isSystem'],
    ['router mode edge without a host', { name: 'gw', routerMode: 'edge' }, 'host'],
    [
      'an interior router without its ports',
      { name: 'gw', routerMode: 'interior', host: 'h', interRouterPort: 1 },
      'edgeRouterPort',
    ],
    ['GPS mode dynamic without a device', { name: 'gw', gpsMode: 'dynamic' }, 'gpsDevice'],
  ])('refuses %s and names the field', (_, body, field) => {
    expect(() => nodeFrom(body)).toThrow(
      expect.objectContaining({ status: 400, code: 'VALIDATION_ERROR', field }) as Error,
    );
  });
});

describe('a node of the system from a create body, on control plane remote', () => {
  const system = (more: object) => nodeFrom({ name: 'gw', isSystem: true, ...more }, 'remote').spec;
  const ROUTER = { host: 'h', interRouterPort: 1, edgeRouterPort: 2 };

  it.each<[string, object]>([
    ['without modes', {}],
    ['with its modes', { routerMode: 'interior', busMode: 'server', ...ROUTER }],
  ])('is accepted %s', (_, more) => {
    expect(system(more)).toEqual({ archId: 0, isSystem: true, ...more });
  });

  it.each<[string, object, string, RegExp]>([
    ['router mode edge', { routerMode: 'edge', host: 'h' }, 'routerMode', /^routerMode: "edge"; must be "interior"/],
    ['router mode none', { routerMode: 'none' }, 'routerMode', /^routerMode: "none"; must be "interior"/],
    ['bus mode leaf', { busMode: 'leaf' }, 'busMode', /^busMode: "leaf"; must be "server"/],
    ['bus mode none', { busMode: 'none' }, 'busMode', /^busMode: "none"; must be "server"/],
    ['text as isSystem', { isSystem: 'yes' }, 'isSystem', /^isSystem: /],
    ['an interior router without a host', { routerMode: 'interior' }, 'host', /^host: is required/],
  ])('is refused with %s, and the field is named with its value', (_, more, field, message) => {
    expect(() => system(more)).toThrow(expect.objectContaining({ status: 400, field }) as Error);
    expect(() => system(more)).toThrow(message);
  });

  it('is refused on control plane kubernetes, which is named', () => {
    expect(() => nodeFrom({ name: 'gw', isSystem: true })).toThrow(/^isSystem: true; .*control plane remote/);
  });
});

describe('the bus mode of a node without the setting, after a PATCH body', () => {
  const node = makeNode({ spec: { archId: 1 } });

  it.each<[mode: string, isBusOn: boolean, stored: object]>([
    ['leaf', true, {}],
    ['none', true, { busMode: 'none' }],
    ['none', false, {}],
    ['leaf', false, { busMode: 'leaf' }],
  ])('%s while the bus is on: %s, is stored as %j', (busMode, isBusOn, stored) => {
    expect(patched(node, { busMode }, isBusOn)).toEqual({ archId: 1, ...stored });
  });

  it.each([true, false])('stays unset when a read is sent back, with the bus on: %s', (isBusOn) => {
    const read = readOf(node, { liveness: 'never' }, isBusOn);
    expect(read.busMode).toBe(isBusOn ? 'leaf' : 'none');
    expect(patched(node, read, isBusOn)).toEqual(node.spec);
  });
});

describe('a node of the system after a PATCH body', () => {
  const node = makeNode({ spec: { archId: 1, isSystem: true } });

  it('stays as it is when its read is sent back, which shows an interior router and a bus server', () => {
    const read = readOf(node, { liveness: 'never' });
    expect(read).toMatchObject({ isSystem: true, routerMode: 'interior', busMode: 'server', interRouterPort: 55671 });
    expect(patched(node, read)).toEqual(node.spec);
  });

  it.each<[object, RegExp]>([
    [{ isSystem: false }, /^isSystem: false; is immutable and is true/],
    [{ routerMode: 'edge', host: 'h' }, /^routerMode: "edge"; must be "interior"/],
    [{ busMode: 'leaf' }, /^busMode: "leaf"; must be "server"/],
  ])('is refused with %j', (body, message) => {
    expect(() => patched(node, body)).toThrow(message);
  });

  it('with another mode from kubectl is shown as interior, and the mode can be removed', () => {
    const edge = makeNode({ spec: { archId: 1, isSystem: true, routerMode: 'edge' } });
    expect(readOf(edge, { liveness: 'never' }).routerMode).toBe('interior');
    expect(patched(edge, { routerMode: null })).toEqual({ archId: 1, isSystem: true });
  });
});

describe('a node after a PATCH body', () => {
  const spec: EdgeNodeSpec = {
    uuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6',
    archId: 1,
    diskLimit: 5,
    location: 'hall 3',
    tags: ['press', 'east'],
  };
  const node = makeNode({ spec });
  test.each<[string, unknown, Partial<EdgeNodeSpec>]>([
    ['absent fields stay', {}, {}],
    ['a value replaces', { diskLimit: 6 }, { diskLimit: 6 }],
    ['a zero is a value', { diskLimit: 0 }, { diskLimit: 0 }],
    ['tags replace the whole list', { tags: ['west'] }, { tags: ['west'] }],
    ['null removes', { diskLimit: null }, { diskLimit: undefined }],
    ['empty text removes', { location: '' }, { location: undefined }],
    ['unknown fields are dropped', { bluetoothEnabled: true }, {}],
    ['the present uuid changes nothing, and an id is ignored', { uuid: spec.uuid, id: 9 }, {}],
    ['the present name changes nothing', { name: 'gw-1' }, {}],
    [
      'two coordinates are set together, also when one of them is shown already',
      { latitude: 0, longitude: 4 },
      { latitude: 0, longitude: 4, gpsMode: 'manual' },
    ],
    ['coordinates as they are shown set nothing', { latitude: 0, longitude: 0 }, {}],
    ['the present isSystem changes nothing', { isSystem: false }, {}],
  ])('%s', (_, body, changes) => {
    expect(patched(node, body)).toEqual(JSON.parse(JSON.stringify({ ...spec, ...changes })));
  });

  test.each([
    ['another name', { name: 'gw-2' }, 'name'],
    ['another uuid', { uuid: 'other' }, 'uuid'],
    ['a change to a system node', { isSystem: true }, 'isSystem'],
    ['a number out of range', { cpuLimit: 1 }, 'cpuLimit'],
    ['router mode edge without a host', { routerMode: 'edge', host: null }, 'host'],
    ['one coordinate alone', { latitude: 1 }, 'latitude'],
  ])('refuses %s', (_, body, field) => {
    const withoutAddress = makeNode({ spec: { ...spec, routerMode: 'none' } });
    expect(() => patched(withoutAddress, body)).toThrow(refusal(field) as Error);
  });

  it('a port that is given as it is shown counts as given', () => {
    const router: EdgeNodeSpec = { archId: 1, routerMode: 'interior' };
    const body = { routerMode: 'interior', host: 'h', interRouterPort: 55671, edgeRouterPort: 45671 };
    expect(patched(makeNode({ spec: router }), body)).toEqual({ ...router, host: 'h' });
  });

  it('one coordinate alone that was stored once goes with the next change', () => {
    const { latitude: _, ...half } = { ...spec, latitude: 1, longitude: 2 };
    expect(patched(makeNode({ spec: { archId: undefined, ...half } }), { location: 'hall 4' })).toEqual({
      ...spec,
      location: 'hall 4',
    });
  });

  it('a read that is sent back sets no default', () => {
    const read = readOf(node, { liveness: 'never' });
    expect(patched(node, read)).toEqual(spec);
  });

  it('a default that differs from the read is set', () => {
    expect(patched(node, { memoryLimit: 4096 })).not.toHaveProperty('memoryLimit');
    const machine = makeNode({ spec, status: { config: { memoryLimit: 512 } } });
    expect(patched(machine, { memoryLimit: 4096 })).toHaveProperty('memoryLimit', 4096);
  });

  it('does not change the stored node', () => {
    patched(node, { diskLimit: 9, location: null });
    expect(node.spec).toEqual(spec);
  });
});
