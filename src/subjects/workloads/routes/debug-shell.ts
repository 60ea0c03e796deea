import { z } from 'zod';
import type { Application } from '../../../api/v3/index.ts';
import { imageReference } from '../../../api/v3/microservice.ts';
import { HttpError } from '../../../http/http-error.ts';
import { isNotFound } from '../../../kube/api-error.ts';
import { retryOnConflict } from '../../../kube/update.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { createNamed, MACHINES } from '../../../rest/objects/deletion.ts';
import { edit } from '../../../rest/objects/edit.ts';
import { accessByKey, applicationByName, findObject, presentObject } from '../../../rest/objects/lookup.ts';
import { presentNodes } from '../../../rest/objects/present.ts';
import { DomainError } from '../../../rules/errors.ts';
import { KINDS } from '../../kinds.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { debugShellImage, newDebugShell, withDebugShell, withEndedDebugShell } from '../rules/debug-shell.ts';
import { checkEntries } from './check-entries.ts';

/** The debug shell of a node, which users reach over the exec socket of the system. */

type Asked = Parameters<typeof newDebugShell>[0];

const resource = 'systemmicroservices/exec';
const { name } = accessByKey(KINDS.nodes);

export const debugShellRoutes = grouped('Nodes', [
  route({
    method: 'POST',
    path: '/node/{uuid}/exec',
    operation: 'createDebugShell',
    summary: 'Let a debug shell run on a node for an hour, or an hour longer',
    description:
      'A microservice `debug` of the application `system-<node>`. It goes a minute after its last session, and after an hour without one. The header `Skerry-Image` of the reply has the image that it runs: that of the request, else that of the catalog item.',
    access: { resource, verb: 'create' },
    params: shapes.uuidParam,
    body: { kind: 'json', schema: z.object({ image: imageReference.optional() }), optional: true },
    reply: { status: 204 },
    async handler({ deps, caller, params, body, signal, headers }) {
      const node = await presentObject(deps, KINDS.nodes, params.uuid, signal);
      const shell = await ask({ deps, caller, signal }, { node, image: body?.image, now: deps.clock() });
      const present = await presentNodes(deps, [node], signal);
      headers['skerry-image'] = debugShellImage(shell, present(node), deps.lookups.find);
    },
  }),
  route({
    method: 'DELETE',
    path: '/node/{uuid}/exec',
    operation: 'deleteDebugShell',
    summary: 'Remove the debug shell of a node, if it has one',
    access: { resource, verb: 'delete', name },
    params: shapes.uuidParam,
    reply: { status: 204 },
    async handler({ deps, params, signal }) {
      const node = await presentObject(deps, KINDS.nodes, params.uuid, signal);
      const find = () => findObject(deps, KINDS.applications, systemApplicationName(node), signal);
      const end = async () => {
        const application = await find();
        if (!application?.spec.isSystem) return;
        const ended = withEndedDebugShell(application, deps.clock());
        if (ended !== application) await deps.applications.replace(ended, signal);
      };
      // Other writers may add microservices of the system or take them away meanwhile.
      await retryOnConflict(end, { signal }).catch(unlessGone);
    },
  }),
]);

const unlessGone = (error: unknown) => {
  if (!isNotFound(error)) throw error;
};

/** The leader may delete the application of an ended shell between two steps of a request. */
const ATTEMPTS = 3;

async function ask(requester: Requester, asked: Asked): Promise<Application> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await askOnce(requester, asked);
    } catch (error) {
      const isGone = isNotFound(error) || (error instanceof HttpError && error.status === 404);
      if (!isGone || attempt === ATTEMPTS) throw error;
    }
  }
}

async function askOnce(requester: Requester, asked: Asked): Promise<Application> {
  const { deps, signal } = requester;
  const name = systemApplicationName(asked.node);
  const make = async () => {
    const made = newDebugShell(asked);
    await checkEntries(requester, made, undefined);
    return made;
  };
  const find = () => findObject(deps, KINDS.applications, name, signal);
  if (!(await find())) {
    try {
      return await createNamed(deps.applications, { kind: 'application', name, waitsFor: MACHINES }, make, signal);
    } catch (error) {
      // Another request made it at the same moment.
      if (!(error instanceof DomainError && error.code === 'DUPLICATE_NAME')) throw error;
    }
  }
  return edit(
    deps.applications,
    async () => (await find()) ?? applicationByName(deps, name, signal, { system: true }),
    async (application) => {
      const changed = withDebugShell(application, asked);
      if (changed !== application) await checkEntries(requester, changed, application);
      return changed;
    },
    signal,
  );
}
