import type { RestDependencies } from '../contract/dependencies.ts';
import { notFound } from '../contract/errors.ts';
import { grouped, route } from '../contract/route.ts';

/** What this installation can do, for clients that look before they offer it: 204 when it can, else 404. */
const CAPABILITIES: readonly {
  name: string;
  operation: string;
  of: string;
  isThere(self: RestDependencies['self']): boolean;
}[] = [
  {
    name: 'applicationTemplates',
    operation: 'hasApplicationTemplates',
    of: 'application templates',
    isThere: () => true,
  },
  { name: 'bus', operation: 'hasBus', of: 'a message bus', isThere: (self) => self.isBusEnabled === true },
];

export const capabilityRoutes = grouped(
  'Controller',
  CAPABILITIES.map(({ name, operation, of, isThere }) =>
    route({
      method: 'HEAD',
      path: `/capabilities/${name}`,
      operation,
      summary: `Whether this installation has ${of}`,
      access: { resource: 'capabilities', verb: 'get' },
      reply: { status: 204 },
      errors: [404],
      handler({ deps }) {
        if (!isThere(deps.self)) throw notFound('CAPABILITY_NOT_FOUND', `this installation does not have ${of}`);
      },
    }),
  ),
);
