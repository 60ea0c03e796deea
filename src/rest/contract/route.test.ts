import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { route, spellings } from './route.ts';

describe('a route', () => {
  test('without an access rule, or with a reply of another type, does not compile', () => {
    const rest = { method: 'GET', path: '/a', operation: 'a', summary: 's' } as const;
    // @ts-expect-error access is missing
    route({ ...rest, reply: { status: 204 }, handler: () => undefined });
    // @ts-expect-error neither public, authenticated nor a permission
    route({ ...rest, access: {}, reply: { status: 204 }, handler: () => undefined });
    const reply = { status: 200, schema: z.object({ a: z.string() }) } as const;
    // @ts-expect-error a is no number
    route({ ...rest, access: 'public', reply, handler: () => ({ a: 1 }) });
    expect(route({ ...rest, access: 'public', reply, handler: () => ({ a: 'x' }) }).path).toBe('/a');
  });

  test('has a handler with the types of its schemas', () => {
    route({
      method: 'POST',
      path: '/a/{n}',
      operation: 'a',
      summary: 's',
      access: 'authenticated',
      params: z.object({ n: z.string().transform(Number) }),
      body: { kind: 'json', schema: z.object({ m: z.number() }) },
      reply: { status: 200, schema: z.object({ sum: z.number() }) },
      handler: ({ params, body }) => ({ sum: params.n + body.m }),
    });
  });
});

describe('paths', () => {
  test('have the spellings of existing v3 clients', () => {
    expect(spellings('/node/{uuid}/reboot')).toEqual(['/node/{uuid}/reboot', '/iofog/{uuid}/reboot']);
    expect(spellings('/node-list')).toEqual(['/node-list', '/iofog-list']);
    expect(spellings('/bus/hub')).toEqual(['/bus/hub', '/nats/hub']);
    expect(spellings('/nodes')).toEqual(['/nodes']);
  });
});
