import { z } from 'zod';
import type { RegistryView } from '../../../../../src/wire/agent.ts';
import type { LocalRegistries, RegistryManifest } from '../../../local/registries.ts';
import { LocalApiError } from '../../server/errors.ts';
import { routesWith } from '../../server/route.ts';
import { acceptedReply, validity, validityReply } from './judged.ts';

/** What the registries of a machine need of the agent. */
export interface RegistryDependencies {
  agent: { readonly registries: Pick<LocalRegistries, 'all' | 'get' | 'judge' | 'apply' | 'remove'> };
}

const { route, upload } = routesWith<RegistryDependencies>('deploy');

const MASK = '***';

/** The registries of the machine itself, in ids of its own. */
export const REGISTRY_ROUTES = [
  upload({
    method: 'POST',
    path: '/v1/deploy/registries:apply',
    operation: 'applyRegistry',
    summary: 'Defines a registry on this machine, or changes the registry of this id, or of this type and url',
    access: 'admin',
    errors: [409, 503],
    reply: {
      form: 'envelope',
      schema: () => acceptedReply('Registry').extend({ registry: registryReply() }),
    },
    handler: async ({ body, deps: { agent } }) => {
      const { dryRun } = body;
      const manifest = await read(body.manifest);
      const registry = dryRun ? agent.registries.judge(manifest) : agent.registries.apply(manifest);
      return { accepted: true, dryRun, kind: 'Registry', registry: rowOf(registry, { isMasked: true }) };
    },
  }),
  upload({
    method: 'POST',
    path: '/v1/deploy/registries:validate',
    operation: 'validateRegistry',
    summary: 'Judges the manifest of a registry',
    access: 'admin',
    errors: [409],
    reply: {
      form: 'envelope',
      schema: () =>
        validityReply('Registry').extend({
          ...{ url: z.string(), private: z.boolean(), type: z.enum(['oci', 'hub']), insecure: z.boolean() },
        }),
    },
    handler: async ({ body, deps: { agent } }) => {
      const { url, isPublic, type, insecure } = agent.registries.judge(await read(body.manifest));
      return { ...validity('Registry'), url, private: !isPublic, type, insecure };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/registries',
    operation: 'listRegistries',
    summary: 'The registries of this machine; passwords are masked',
    access: 'admin',
    reply: { form: 'envelope', schema: () => z.object({ items: z.array(registryReply()) }) },
    handler: ({ deps: { agent } }) => ({ items: agent.registries.all.map((each) => rowOf(each, { isMasked: true })) }),
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/registries/{id}',
    operation: 'getRegistry',
    summary: 'One registry of this machine, with its password',
    access: 'admin',
    errors: [400, 404, 503],
    reply: { form: 'envelope', schema: registryReply },
    handler: ({ params: { id }, deps: { agent } }) => rowOf(agent.registries.get(idOf(id)), { isMasked: false }),
  }),
  route({
    method: 'DELETE',
    path: '/v1/deploy/registries/{id}',
    operation: 'removeRegistry',
    summary: 'Removes a registry that nothing of this machine names',
    access: 'admin',
    errors: [400, 404, 409, 503],
    reply: { form: 'envelope', schema: () => z.object({ status: z.literal('ok'), id: z.int() }) },
    handler: ({ params, deps: { agent } }) => {
      const id = idOf(params.id);
      agent.registries.remove(id);
      return { status: 'ok', id };
    },
  }),
];

/** Most agents never get a manifest. */
async function read(manifest: string): Promise<RegistryManifest> {
  const { readRegistryManifest } = await import('../../../local/content-manifests.ts');
  return readRegistryManifest(manifest);
}

function idOf(text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  const shown = JSON.stringify(text.slice(0, 50));
  throw new LocalApiError('INVALID_ARGUMENT', `the id ${shown} is not a whole number above 0`);
}

/** Members without a value are left out. */
function rowOf({ id, url, isPublic, type, insecure, ...texts }: RegistryView, { isMasked }: { isMasked: boolean }) {
  const { username, password, userEmail, ca } = texts;
  return {
    ...{ id, url, isPublic },
    ...(username && { userName: username }),
    ...(password && { password: isMasked ? MASK : password }),
    ...(userEmail && { userEmail }),
    ...(ca && { ca }),
    ...{ type, insecure },
  };
}

function registryReply() {
  return z.object({
    ...{ id: z.int(), url: z.string(), isPublic: z.boolean() },
    userName: z.string().optional(),
    password: z.string().optional().describe('masked in lists'),
    ...{ userEmail: z.string().optional(), ca: z.string().optional().describe('PEM in base64') },
    ...{ type: z.enum(['oci', 'hub']), insecure: z.boolean() },
  });
}
