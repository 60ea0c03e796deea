import { z } from 'zod';
import { queryFlag } from '../../server/fields.ts';
import { routesWith } from '../../server/route.ts';
import { validity, validityReply } from './judged.ts';
import {
  changed,
  pictureOf,
  type RuntimeClassAgent,
  runtimeClassChangeReply,
  runtimeClassReply,
} from './runtime-class-changes.ts';

/** What the runtime classes of a machine need of the agent. */
export interface RuntimeClassDependencies {
  agent: RuntimeClassAgent;
}

const { route, upload } = routesWith<RuntimeClassDependencies>('deploy');

/** Whether an operation goes on after the answer. */
const goesOn = (data: object): boolean => 'status' in data && data.status === 'running';

/** The runtime classes of the machine itself. */
export const RUNTIME_CLASS_ROUTES = [
  upload({
    method: 'POST',
    path: '/v1/deploy/runtimeclasses:apply',
    operation: 'applyRuntimeClass',
    summary: 'Adds a runtime class, or changes its runtime; answers 202 with `async`, and when it takes long',
    access: 'admin',
    errors: [409, 503],
    reply: {
      form: 'envelope',
      status: { other: 202, when: goesOn },
      schema: () => z.union([runtimeClassChangeReply(), validReply().extend({ dryRun: z.literal(true) })]),
    },
    handler: async ({ body, signal, deps: { agent } }) => {
      const runtimeClass = await read(body.manifest);
      agent.runtimeClasses.judge(runtimeClass);
      if (body.dryRun) return { ...valid(runtimeClass), dryRun: true as const };
      const act = () => ({ runtimeClass: pictureOf(agent.runtimeClasses.apply(runtimeClass)) });
      const change = { kind: 'RuntimeClass', name: runtimeClass.name } as const;
      return changed(agent.runtimeClassApplies, change, act, { async: body.async, signal });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/runtimeclasses:apply/{operationId}',
    operation: 'getRuntimeClassApply',
    summary: 'How far the change of a runtime class is',
    access: 'admin',
    errors: [404],
    reply: { form: 'envelope', schema: runtimeClassChangeReply },
    handler: ({ params: { operationId }, deps: { agent } }) => agent.runtimeClassApplies.get(operationId),
  }),
  upload({
    method: 'POST',
    path: '/v1/deploy/runtimeclasses:validate',
    operation: 'validateRuntimeClass',
    summary: 'Judges the manifest of a runtime class',
    access: 'admin',
    errors: [409, 503],
    reply: { form: 'envelope', schema: validReply },
    handler: async ({ body, deps: { agent } }) => {
      const runtimeClass = await read(body.manifest);
      agent.runtimeClasses.judge(runtimeClass);
      return valid(runtimeClass);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/runtimeclasses',
    operation: 'listRuntimeClasses',
    summary: 'The runtime classes of this machine, of all sources',
    access: 'admin',
    reply: { form: 'envelope', schema: () => z.object({ items: z.array(runtimeClassReply()) }) },
    handler: ({ deps: { agent } }) => ({ items: agent.runtimeClasses.all.map(pictureOf) }),
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/runtimeclasses/{name}',
    operation: 'getRuntimeClass',
    summary: 'One runtime class',
    access: 'admin',
    errors: [404, 503],
    reply: { form: 'envelope', schema: runtimeClassReply },
    handler: ({ params: { name }, deps: { agent } }) => pictureOf(agent.runtimeClasses.get(name)),
  }),
  route({
    method: 'DELETE',
    path: '/v1/deploy/runtimeclasses/{name}',
    operation: 'removeRuntimeClass',
    summary: 'Removes a runtime class that no microservice of this machine names',
    access: 'admin',
    query: () => z.object({ async: queryFlag('answer when the work begins') }),
    errors: [404, 409, 503],
    reply: {
      form: 'envelope',
      status: { other: 202, when: goesOn },
      schema: runtimeClassChangeReply,
    },
    handler: ({ params: { name }, query, signal, deps: { agent } }) => {
      agent.runtimeClasses.judgeRemoval(name);
      const act = () => {
        agent.runtimeClasses.remove(name);
        return {};
      };
      return changed(agent.runtimeClassDeletes, { kind: 'RuntimeClassDelete', name }, act, { ...query, signal });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deploy/runtimeclasses:delete/{operationId}',
    operation: 'getRuntimeClassRemoval',
    summary: 'How far the removal of a runtime class is',
    access: 'admin',
    errors: [404],
    reply: { form: 'envelope', schema: runtimeClassChangeReply },
    handler: ({ params: { operationId }, deps: { agent } }) => agent.runtimeClassDeletes.get(operationId),
  }),
];

/** Most agents never get a manifest. */
async function read(manifest: string) {
  const { readRuntimeClassManifest } = await import('../../../local/content-manifests.ts');
  return readRuntimeClassManifest(manifest);
}

const valid = ({ name, handler }: Awaited<ReturnType<typeof read>>) => ({
  ...validity('RuntimeClass'),
  ...{ name, handler, runtimeName: name },
});

function validReply() {
  return validityReply('RuntimeClass').extend({ name: z.string(), handler: z.string(), runtimeName: z.string() });
}
